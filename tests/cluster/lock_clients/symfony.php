<?php
// SPDX-License-Identifier: MIT
// symfony/lock, unmodified, on phpredis or predis:
// php symfony.php phpredis|predis NAME COUNT FILE PORT
// Takes the lock COUNT times, and appends "enter" and "leave" to FILE each time.
use Symfony\Component\Lock\Key;
use Symfony\Component\Lock\Lock;
use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Lock\Store\RedisStore;

require 'Psr/Log/autoload.php';
require 'Symfony/Component/Lock/autoload.php';
require 'Predis/Autoloader.php';
Predis\Autoloader::register();
[, $kind, $name, $count, $path, $port] = $argv;

function client(string $kind, int $port) {
    if ($kind === 'predis') {
        return new Predis\Client(['host' => '127.0.0.1', 'port' => $port]);
    }
    $client = new Redis();
    $client->connect('127.0.0.1', $port, 5);
    return $client;
}

function say(string $path, string $what) {
    file_put_contents($path, "$what\n", FILE_APPEND);
}

// A refused lock is false, a refused release is not noticed.
$factory = new LockFactory(new RedisStore(client($kind, $port), 4));
$first = $factory->createLock("$name-first-" . getmypid(), 4);
$second = $factory->createLock("$name-first-" . getmypid(), 4);
if (!$first->acquire() || $second->acquire() || !$first->isAcquired()) {
    exit("two holders\n");
}
$first->refresh(8);
if ($first->getRemainingLifetime() < 4) {
    exit("not refreshed\n");
}
$second->release();
if ($second->acquire()) {
    exit("it was released by another\n");
}
$first->release();
if (!$second->acquire()) {
    exit("it was not released\n");
}
$second->release();

for ($had = 0; $had < $count;) {
    try {
        $factory = new LockFactory(new RedisStore(client($kind, $port), 4));
        while ($had < $count) {
            $lock = $factory->createLock($name, 4);
            if (!$lock->acquire()) {
                usleep(random_int(20000, 50000));
                continue;
            }
            say($path, 'enter ' . getmypid());
            usleep(10000);
            say($path, 'leave ' . getmypid());
            $had++;
            $lock->release();
            usleep(random_int(0, 10000));
        }
    } catch (Exception $error) {
        usleep(100000); // The node is down, or looks for a leader.
    }
}
echo "ok\n";
