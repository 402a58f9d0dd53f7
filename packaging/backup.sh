#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Saves the state of the cluster into a folder and keeps the newest files.
#
#   backup FOLDER [HASP-OPTION...]
#
#   backup /var/lib/hasp/backup --socket /var/lib/hasp/data
#
# Each file is hasp-TIME.snap, TIME in UTC. It exists only once it is complete.
# Then all files are verified, so that a file that was damaged later is found
# while there are others. The newest 24 are kept, and of each of the last 7
# days that have one the newest; HASP_KEEP and HASP_KEEP_DAYS change that.
#
# Exit codes: 0, those of 'hasp snapshot save', or 65: a file is damaged. Then
# nothing is removed.
set -eu
folder=$1
shift
keep=${HASP_KEEP:-24}
keep_days=${HASP_KEEP_DAYS:-7}
umask 077
mkdir -p "$folder"
now=$(date -u +%Y%m%dT%H%M%SZ)
hasp "$@" -q snapshot save "$folder/hasp-$now.snap" > /dev/null
hasp snapshot verify "$folder"/hasp-*.snap
# The newest first; names sort by time.
newest=$(ls -r "$folder" | grep '^hasp-[0-9TZ]*\.snap$')
days=0
last=
count=0
for file in $newest; do
    count=$((count + 1))
    day=${file#hasp-}
    day=${day%%T*}
    is_kept=no
    if [ "$count" -le "$keep" ]; then
        is_kept=yes
    fi
    if [ "$day" != "$last" ]; then
        last=$day
        days=$((days + 1))
        if [ "$days" -le "$keep_days" ]; then
            is_kept=yes
        fi
    fi
    if [ "$is_kept" = no ]; then
        rm -f "$folder/$file"
    fi
done
