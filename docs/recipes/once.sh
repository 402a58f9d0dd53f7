#!/bin/sh
# SPDX-License-Identifier: MIT
#
# A cron job once per cluster: the same line in every machine's crontab.
#
#   once.sh NAME PERIOD COMMAND...
#
#   0 2 * * *  once.sh nightly +\%F /usr/local/bin/nightly
#
# PERIOD is a text, or a format of date(1), in UTC. The first machine takes the
# lock NAME/PERIOD and leaves it to its TTL of a minute, so a machine with a
# clock that is slow by less than that finds it taken, even if the job has
# ended. The second lock keeps tonight's run from overlapping with last night's.
# A machine that dies in the midst does not repeat the job.
set -eu
name=$1
period=$2
shift 2
case $period in
+*) period=$(date -u "$period") ;;
esac
command -v hasp > /dev/null || {
    echo "once: '$name' was not run: no hasp in $PATH" >&2
    echo "once: cron's PATH is short; set it in the crontab" >&2
    exit 127
}
status=0
hasp -q acquire -n --ttl 1m "$name/$period" > /dev/null || status=$?
case $status in
0) exec hasp run "$name" -- "$@" ;;
75) exit 0 ;; # Another machine has it.
*)
    echo "once: '$name' was not run: hasp has ended with $status" >&2
    exit "$status"
    ;;
esac
