#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A failed run of the simulator as one HTML page, without external references.

    build/check/sim --seed 17 --verbose | tools/sim_page.py > page.html

At the top is the violated sentence; then the whole run: which nodes ran, led,
had a session, and the faults; then the last moments with leases and
holds as bars and messages as arrows; then the end of the trace. Whatever the
sentence names is marked.
"""

import argparse
import html
import re
import sys

MESSAGES_MAX = 160
WINDOW_MAX = 1.5  # Seconds.
WIDTH = 1180
LEFT = 74
ROW = 26
ROW_WITH_MESSAGES = 46
LINES_SHOWN = 120
QUIET = ('RAFT', 'CLOCK', 'PING', 'PONG', 'DIGEST', 'MEMBERS', 'HELLO')
COLORS = ('#1f77b4', '#d97706', '#2e8b57', '#9467bd', '#8c564b', '#c2549d',
          '#5b6770', '#7a8b00', '#0e7f8c', '#a04040')

STYLE = '''
body { font: 14px/1.45 system-ui, sans-serif; margin: 24px auto; color: #1c2733;
       max-width: 1200px; padding: 0 16px; background: #fff; }
h1 { font-size: 22px; margin: 0 0 4px; border-left: 5px solid #c62828;
     padding-left: 12px; }
h2 { font-size: 16px; margin: 28px 0 6px; }
p { margin: 4px 0; max-width: 80em; }
.why { padding-left: 17px; color: #8e1b1b; font-weight: 600; }
code, pre { font: 12px/1.5 ui-monospace, monospace; }
pre { background: #f5f7f9; padding: 10px; overflow-x: auto; }
pre b { background: #ffe2a8; font-weight: 600; }
svg { display: block; width: 100%; height: auto; background: #fcfdfe;
      border: 1px solid #dde3e8; }
svg text { font: 11px system-ui, sans-serif; fill: #1c2733; }
svg .axis { fill: #65727d; }
svg .named { font-weight: 700; fill: #c62828; }
.key span { display: inline-block; margin-right: 18px; white-space: nowrap; }
.key i { display: inline-block; width: 22px; height: 10px; margin-right: 5px;
         vertical-align: middle; }
'''


class Bar:
    """A bar in a row."""

    def __init__(self, row, begin, look, title):
        self.row, self.begin, self.end = row, begin, None
        self.look, self.title = look, title


class Run:
    """The content of a trace."""

    def __init__(self, lines):
        self.lines, self.why, self.seed = [], '', ''
        self.end = 0.0
        self.hosts, self.locks = [], []
        self.bars, self.open = [], {}
        self.messages, self.faults = [], []
        self.client_of, self.beats = {}, []
        for line in lines:
            line = line.rstrip('\n')
            if re.match(r'\s*\d+\.\d{6} ', line[:13]):
                self._take(line)
            elif re.match(r'seed \d+: ', line):
                self.seed, self.why = re.match(r'seed (\d+): (.*)',
                                               line).groups()
        for bar in self.bars:
            bar.end = self.end if bar.end is None else bar.end

    def _begin(self, key, row, at, look, title):
        self._finish(key, at)
        self.open[key] = Bar(row, at, look, title)
        self.bars.append(self.open[key])

    def _finish(self, key, at):
        bar = self.open.pop(key, None)
        if bar:
            bar.end = at

    def _ends(self, host, at):
        for key in [k for k in self.open if k[0] == host]:
            self._finish(key, at)

    def _take(self, line):
        at, host, text = float(line[:12]), line[13:17].strip(), line[18:]
        self.lines.append(line)
        self.end = at
        if host and host not in self.hosts:
            self.hosts.append(host)
        if text.startswith('VIOLATION: '):
            self.why = text[11:]
        elif text.startswith('message from '):
            found = re.match(r'message from (\S+) sent (\S+): ?(.*)', text)
            self.messages.append((float(found[2]), found[1], at, host,
                                  found[3]))
        elif text.startswith('fault '):
            self.faults.append((at, text[6:]))
        elif host:
            self._take_host(at, host, text)
        else:
            self._take_log(at, text)

    def _take_host(self, at, host, text):
        word = re.match(r'(\D*?)((?: \d+)*)$', text)
        words = word[1].strip() if word else text
        numbers = word[2].split() if word else []
        if words == 'starts':
            self._begin((host, 'runs'), host, at, 'runs', f'{host} runs')
        elif words in ('is killed', 'loses power', 'stops', 'is removed'):
            self._ends(host, at)
        elif words == 'is stopped':
            self._begin((host, 'halt'), host, at, 'halt', f'{host} is stopped')
        elif words == 'goes on':
            self._finish((host, 'halt'), at)
        elif words == 'leads':
            for key in [k for k in self.open if k[1] == 'leads']:
                self._finish(key, at)
            self._begin((host, 'leads'), host, at, 'leads',
                        f'{host} leads term {numbers[0]}')
        elif words in ('opened', 'kept') and numbers and numbers[0] != '0':
            self._session(at, host, numbers[0])
        elif words in ('loses its session', 'closes'):
            self._finish((host, 'session'), at)

    def _session(self, at, host, session):
        self.client_of[session] = host
        bar = self.open.get((host, 'session'))
        if not bar or session not in bar.title:
            self._begin((host, 'session'), host, at, 'session',
                        f'{host} has session {session}')

    def _take_log(self, at, text):
        told = re.match(r'lock (\S+) event: (\S+) session (\d+) token (\d+)',
                        text)
        heard = re.match(r'session (\d+) is heard: sent (\S+), (\d+) ms',
                         text)
        if heard:
            self.beats.append((heard[1], float(heard[2]),
                               int(heard[3]) / 1000))
        if not told:
            return
        lock, kind, session, token = told.groups()
        if lock not in self.locks:
            self.locks.append(lock)
        key = (lock, session, token)
        if kind == 'granted':
            self._begin(key, lock, at, 'hold',
                        f'session {session} holds {lock} with token {token}')
        elif kind in ('released', 'expired'):
            self._finish(key, at)


def number_of(name):
    return int(re.sub(r'\D', '', name) or 0)


class Chart:
    """Rows over a stretch of time."""

    def __init__(self, run, begin, has_messages):
        self.run, self.begin = run, begin
        self.span = max(run.end - begin, 0.001)
        self.has_messages = has_messages
        nodes = sorted((h for h in run.hosts if h[0] == 'n'), key=number_of)
        clients = sorted((h for h in run.hosts if h[0] == 'c'), key=number_of)
        locks = [lock for lock in sorted(run.locks)
                 if not has_messages or any(
                     bar.row == lock and bar.end >= begin for bar in run.bars)]
        self.rows = nodes + clients + (locks[:16] if has_messages else [])
        self.row = ROW_WITH_MESSAGES if has_messages else ROW
        self.height = self.row * len(self.rows) + 52
        self.labels = []
        self.named = set(re.findall(r"[\w/]+", run.why))
        self.out = []

    def x(self, at):
        share = (max(at, self.begin) - self.begin) / self.span
        return LEFT + share * (WIDTH - LEFT - 14)

    def y(self, row):
        return self.row * self.rows.index(row) + self.row // 2 + 24

    def put(self, tag, title='', **attributes):
        names = ' '.join(f'{k.replace("_", "-")}="{v}"'
                         for k, v in attributes.items())
        inner = f'<title>{html.escape(title)}</title>' if title else ''
        self.out.append(f'<{tag} {names}>{inner}</{tag}>')

    def text(self, x, y, text, **attributes):
        names = ' '.join(f'{k.replace("_", "-").rstrip("-")}="{v}"'
                         for k, v in attributes.items())
        self.out.append(f'<text x="{x:.1f}" y="{y:.1f}" {names}>'
                        f'{html.escape(text)}</text>')

    def grid(self):
        for i in range(6):
            at = self.begin + self.span * i / 5
            x = self.x(at)
            self.put('line', x1=f'{x:.1f}', x2=f'{x:.1f}', y1=16,
                     y2=self.height - 16, stroke='#e3e9ee')
            self.text(x, self.height - 4, f'{at:.3f} s', class_='axis',
                      text_anchor='end' if i == 5 else 'middle')
        for row in self.rows:
            self.text(6, self.y(row) + 4, row[:11],
                      class_='named' if row in self.named else 'row')
            self.put('line', x1=LEFT, x2=WIDTH - 14, y1=self.y(row),
                     y2=self.y(row), stroke='#c9d2d9')

    def faults(self):
        shown = -100.0
        for at, name in self.run.faults:
            if at < self.begin:
                continue
            x = self.x(at)
            self.put('line', title=f'{at:.3f} s: fault {name}', x1=f'{x:.1f}',
                     x2=f'{x:.1f}', y1=6, y2=self.height - 18,
                     stroke='#e0a8a8', stroke_dasharray='2 3')
            if x - shown > 110:
                shown = x
                self.text(x + 2, 12, name.split(': ')[-1], class_='axis')

    def rect(self, bar, half, fill, **more):
        if bar.end < self.begin:
            return
        if bar.look in ('session', 'hold') and any(
                word in self.named for word in bar.title.split()
                if len(word) > 5 and word.isdigit()):
            more.update(stroke='#c62828', stroke_width=2)
        x = self.x(bar.begin)
        self.put('rect', title=f'{bar.title}: {bar.begin:.3f} to '
                 f'{bar.end:.3f} s', x=f'{x:.1f}', y=self.y(bar.row) - half,
                 width=f'{max(self.x(bar.end) - x, 1.5):.1f}',
                 height=2 * half, fill=fill, rx=2, **more)

    def bars(self):
        looks = {'runs': (4, '#d5dde3'), 'session': (7, '#cfe8d5'),
                 'leads': (6, '#f2b134'), 'halt': (4, '#8795a1')}
        for look in ('runs', 'session'):
            for bar in self.run.bars:
                if bar.look == look and bar.row in self.rows:
                    self.rect(bar, *looks[look])
        self.leases()
        for bar in self.run.bars:
            if bar.row not in self.rows:
                continue
            if bar.look in ('leads', 'halt'):
                self.rect(bar, *looks[bar.look])
            elif bar.look == 'hold':
                self.hold(bar)

    def leases(self):
        """From the time a heartbeat was sent, for 0.8 of the lease that it renewed."""
        for session, sent, length in self.run.beats:
            row = self.run.client_of.get(session)
            end = min(sent + 0.8 * length, self.run.end)
            if row in self.rows and end >= self.begin:
                bar = Bar(row, sent, 'lease', f'session {session} trusts its '
                          f'lease of {length * 1000:.0f} ms')
                bar.end = end
                self.rect(bar, 3, '#58a868')

    def hold(self, bar):
        client = self.run.client_of.get(bar.title.split()[1], '')
        color = COLORS[number_of(client) % len(COLORS)] if client else '#999'
        bar.title = f'{client} {bar.title}'.strip()
        self.rect(bar, 8, color, fill_opacity='0.75')
        if bar.end >= self.begin and self.x(bar.end) - self.x(bar.begin) > 24:
            self.text(self.x(bar.begin) + 4, self.y(bar.row) + 4,
                      client or '?', fill='#fff', style='fill:#fff')

    def arrows(self):
        for sent, source, at, target, word in self.run.messages:
            if at < self.begin or not {source, target} <= set(self.rows):
                continue
            is_quiet = word in QUIET
            color = '#b9c4cd' if is_quiet else '#3b6ea5'
            x1, y1 = self.x(sent), self.y(source)
            x2, y2 = self.x(at), self.y(target)
            self.put('line', title=f'{source} to {target}: {word}, '
                     f'{sent:.4f} to {at:.4f} s', x1=f'{x1:.1f}', y1=y1,
                     x2=f'{x2:.1f}', y2=y2, stroke=color,
                     marker_end='url(#tip)',
                     stroke_width=0.7 if is_quiet else 1.1)
            if not is_quiet and re.match(r'[A-Z][A-Z.]{3,}$', word):
                self.label((x1 + x2) / 2 + 3, (y1 + y2) / 2 + 12, word)

    def label(self, x, y, word):
        """A position without overlap."""
        size = 6 * len(word)
        is_free = all(x > left + width or x + size < left or
                      abs(y - line) > 11 for left, width, line in self.labels)
        if is_free and x + size < WIDTH:
            self.labels.append((x, size, y))
            self.text(x, y, word.lower(), class_='axis')

    def __str__(self):
        self.grid()
        self.faults()
        self.bars()
        if self.has_messages:
            self.arrows()
        x = self.x(self.run.end)
        self.put('line', title='the violation', x1=f'{x:.1f}', x2=f'{x:.1f}',
                 y1=4, y2=self.height - 18, stroke='#c62828', stroke_width=2)
        tip = ('<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" '
               'markerWidth="6" markerHeight="6" orient="auto">'
               '<path d="M0 1 L8 4 L0 7 z" fill="#3b6ea5"></path></marker>'
               '</defs>')
        return (f'<svg viewBox="0 0 {WIDTH} {self.height}" role="img">'
                f'{tip if self.has_messages else ""}{"".join(self.out)}</svg>')


def window(run):
    """Back to the first message that can be distinguished."""
    times = [m[2] for m in run.messages if m[4] not in QUIET]
    begin = times[-MESSAGES_MAX] if len(times) > MESSAGES_MAX else 0
    return max(begin, run.end - WINDOW_MAX, 0)


def tail(run):
    named = [w for w in re.findall(r'[\w/]+', run.why) if len(w) > 4]
    lines = html.escape('\n'.join(run.lines[-LINES_SHOWN:]))
    for word in {w for w in named if w.isdigit()}:
        lines = re.sub(rf'\b{word}\b', f'<b>{word}</b>', lines)
    return lines


KEY = ''.join(f'<span><i style="background:{color}"></i>{text}</span>'
              for color, text in (
                  ('#d5dde3', 'runs'), ('#f2b134', 'leads'),
                  ('#8795a1', 'is stopped'), ('#cfe8d5', 'has a session'),
                  ('#58a868', 'trusts its lease'),
                  ('#1f77b4', 'holds a lock (a colour for each client)'),
                  ('#e0a8a8', 'a fault'), ('#c62828', 'the violation')))


def page(run, command, note):
    rule, _, how = run.why.partition(': ')
    return f'''<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<title>{html.escape(rule)}</title>
<style>{STYLE}</style></head><body>
<h1>{html.escape(rule)}</h1>
<p class="why">{html.escape(how)}</p>
<p>Seed {html.escape(run.seed)}, violated at {run.end:.3f} s of true time.
{html.escape(note)}</p>
<p>Again: <code>{html.escape(command)}</code></p>
<p class="key">{KEY}</p>
<h2>The whole run</h2>
{Chart(run, 0, False)}
<h2>The last {run.end - window(run):.3f} s</h2>
<p>Arrows are messages, from when they were sent to when they arrived; grey ones
are between nodes. Point at anything to read what it is.</p>
{Chart(run, window(run), True)}
<h2>The end of the trace</h2>
<pre>{tail(run)}</pre>
</body></html>
'''


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', 1)[0])
    parser.add_argument('--command', default='', help='how to run it again')
    parser.add_argument('--note', default='', help='what else is to be said')
    options = parser.parse_args()
    run = Run(sys.stdin)
    if not run.why:
        sys.exit('sim_page: this trace has no violation')
    print(page(run, options.command, options.note), end='')


if __name__ == '__main__':
    main()
