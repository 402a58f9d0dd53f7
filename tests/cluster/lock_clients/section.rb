# SPDX-License-Identifier: MIT
# ruby-redis, unmodified: ruby section.rb NAME COUNT FILE PORT
# Takes the lock COUNT times, as redlock-rb does, and appends "enter" and "leave" to
# FILE each time.
require 'redis'
require 'securerandom'

NAME, COUNT, FILE, PORT = ARGV
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then " \
          "return redis.call('del', KEYS[1]) else return 0 end"

def say(what)
  File.open(FILE, 'a') { |file| file.syswrite("#{what} #{$$}\n") }
end

redis = Redis.new(port: PORT.to_i, reconnect_attempts: 0, timeout: 5)
mine = "#{NAME}-first-#{$$}"
abort 'it is not free' unless redis.set(mine, 'a', nx: true, px: 4000)
abort 'two holders' if redis.set(mine, 'b', nx: true, px: 4000)
abort 'released by another' unless redis.eval(RELEASE, [mine], ['b']).zero?
abort 'not released' unless redis.eval(RELEASE, [mine], ['a']) == 1

had = 0
while had < COUNT.to_i
  begin
    value = SecureRandom.hex(20)
    unless redis.set(NAME, value, nx: true, px: 4000)
      sleep(rand(0.02..0.05))
      next
    end
    say('enter')
    sleep(0.01)
    say('leave')
    had += 1
    redis.eval(RELEASE, [NAME], [value])
    sleep(rand(0.0..0.01))
  rescue Redis::BaseError
    sleep(0.1)
  end
end
puts 'ok'
