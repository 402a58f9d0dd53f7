#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Sums up gcov's results of a coverage build: executed lines, by folder.
set -eu
build=$1
find "$build" -name '*.gcda' | while read -r data; do
    gcov -n -o "$(dirname "$data")" "$data" 2>/dev/null
done | awk '
    /^File / { file = $2; gsub("\047", "", file) }
    /^Lines executed/ && file !~ /^\// && file !~ /tests\// {
        split($0, part, /[:% ]+/)
        if (!(file in best) || part[3] + 0 > best[file]) {
            best[file] = part[3] + 0
            size[file] = part[length(part)]
        }
    }
    END {
        for (file in best) {
            folder = file
            sub("/[^/]*$", "", folder)
            all[folder] += size[file]
            run[folder] += size[file] * best[file] / 100
        }
        for (folder in all) {
            printf "%-12s %5.1f %% of %d lines\n", folder,
                100 * run[folder] / all[folder], all[folder]
        }
    }' | sort
