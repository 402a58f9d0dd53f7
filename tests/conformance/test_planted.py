# SPDX-License-Identifier: MIT
"""The scripts see a mistake in each of the eight rules (README.md)."""

import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import driver  # noqa: E402
import script  # noqa: E402

JAVA = 'src/main/java/hasp/'
# What is left of a limited hold counts from the answer, not from the sending.
FROM_THE_ANSWER = {
    'c': ('client/hold.c', 'hold->limit_sent = sent;',
          'hold->limit_sent = hold->fsm->conn->now; (void)sent;'),
    'go': ('hold.go', 'g := &grant{since: sent, limit',
           'g := &grant{since: clockNow(), limit'),
    'java': (JAVA + 'Grant.java', 'from = sent;', 'from = Clocks.now();'),
    'python': ('hasp/grant.py', 'self._sent = told.left_ms, sent',
               'self._sent = told.left_ms, __import__('
               '"hasp.lease").lease.read_clock()'),
    'node': ('lib/hold.js', 'this.limit = limitOf(all, sent);',
             "this.limit = limitOf(all, require('./lease').readClock());")}
# Rule, script; by language the file, its text, the planted text. In C a hold is
# freed by its release, so that no caller can ask it (7).
PLANTED = [
    ('1 keep it', 'kept', {
        'c': ('lease/lease.c', ': rules_beat_period(lease_promised_ns(lease));',
              ': 2 * lease_promised_ns(lease);'),
        'go': ('lease.go', 'l.promised() / 5)', 'l.promised() * 2)'),
        'java': (JAVA + 'Lease.java', 'return promised() / 5;',
                 'return promised() * 2;'),
        'python': ('hasp/lease.py', 'self.promised() // 5',
                   'self.promised() * 2'),
        'node': ('lib/lease.js', 'this.promised() / 5n',
                 'this.promised() * 2n')}),
    ('2 from sending', 'from_sending', {
        'c': ('client/session_fsm.c',
              'lease_answered(&fsm->lease, ask->sent, ttl_ms,',
              'lease_answered(&fsm->lease, fsm->conn->now, ttl_ms,'),
        'go': ('keeper.go', 's.answered(reply, a.sent)',
               's.answered(reply, clockNow())'),
        'java': (JAVA + 'Keeper.java', 'session.answered(reply, ask.sent);',
                 'session.answered(reply, Clocks.now());'),
        'python': ('hasp/keeper.py', 'self._answered(reply, sent)',
                   'self._answered(reply, read_clock())'),
        'node': ('lib/session.js', 'this.prolong(reply, sent);\n      this.heard',
                 'this.prolong(reply, readClock());\n      this.heard')}),
    ('2 then stop', 'by_itself', {
        'c': ('lease/lease.c', 'passed_ns >= rules_trusted(lease->ttl_ns)',
              'passed_ns >= 1000 * rules_trusted(lease->ttl_ns)'),
        'go': ('lease.go', 'case age >= trusted(l.ttl):',
               'case age >= 1000*trusted(l.ttl):'),
        'java': (JAVA + 'Lease.java', 'sent.age(now) >= trusted(ttl);',
                 'sent.age(now) >= 1000 * trusted(ttl);'),
        'python': ('hasp/lease.py', 'if age >= trusted(self.ttl):',
                   'if age >= 1000 * trusted(self.ttl):'),
        'node': ('lib/lease.js', 'age >= trusted(this.ttl)',
                 'age >= 1000n * trusted(this.ttl)')}),
    ('2 a limit from sending', 'hold_late_answers', FROM_THE_ANSWER),
    # The same mistakes, in a script whose answers are not late: its variant
    # sees them by the rules.
    ('2 a limit from sending, drawn', 'hold_waited late', FROM_THE_ANSWER),
    ('2 the shortest limit', 'hold_late_answers', {
        'c': ('client/hold.c',
              '(!hold->has_limit || grant->left_ms < hold->left_ms)', 'true'),
        'java': (JAVA + 'Grant.java', 'filter(ms -> ms >= 0).min()',
                 'filter(ms -> ms >= 0).max()'),
        'node': ('lib/hold.js', '{ ms: Math.min(...limits), from }',
                 '{ ms: limits[limits.length - 1], from }')}),
    ('3 a push of another wait', 'numbers notices', {
        'c': ('client/operation.c', 'operation->step != STEP_PARKED ||\n'
              '                   operation->place != place',
              'operation->step != STEP_PARKED'),
        'go': ('change.go', 'told.place != place', 'told.place < 0'),
        'python': ('hasp/request.py',
                   ".get('wait') == self._place", ".get('wait', 0) > 0"),
        'node': ('lib/request.js', '.wait === this.place;', '.wait > 0;')}),
    ('2 an upgraded limit', 'hold_late_answers', {
        'go': ('hold.go', 'g.limit, g.since = limit, sent',
               'g.limit, g.since = limit, clockNow()'),
        'java': (JAVA + 'HaspLock.java',
                 'grants.peek().limit(List.of(now), sent);',
                 'grants.peek().limit(List.of(now), Clocks.now());'),
        'python': ('hasp/hold.py', 'belief.renew(told[0], sent)',
                   'belief.renew(told[0], __import__("hasp.lease").lease.'
                   'read_clock())'),
        'node': ('lib/lock.js', 'this.grant.limit = limitOf([told], sent);',
                 'this.grant.limit = limitOf([told], '
                 "require('./lease').readClock());")}),
    ('3 nil is not a hold', 'refused', {
        'c': ('client/operation.c', 'if (value->type == RESP_NULL) {',
              'if (value->type == RESP_NULL) {\n*ret_is_granted = true;'),
        'go': ('change.go', 'return isNothing, err', 'return isGranted, err'),
        'java': (JAVA + 'HaspLock.java', 'return null;\n                    }\n'
                 '                    List<Told> all',
                 'found[0] = Verdict.GRANTED; return null;\n'
                 '                    }\n                    List<Told> all'),
        'python': ('hasp/hold.py', "verb != 'RELEASE' and reply is not None:",
                   "verb != 'RELEASE':"),
        'node': ('lib/lock.js', 'null) {\n          return false;',
                 'null) {\n          return true;')}),
    ('4 the newest token', 'convert', {
        'c': ('client/hold.c',
              'held->token = grant->token;', ''),
        'go': ('hold.go', 'p.token, p.asOf = now.token, maxOf',
               'p.asOf = maxOf'),
        'java': (JAVA + 'HaspLock.java', 'part.token = now.token();', ''),
        'python': ('hasp/grant.py',
                   'one.first, one.token = told.first, told.token', 'pass'),
        'node': ('lib/lock.js', 'part.token = told.token;', '')}),
    ('5 one number', 'lost_answer', {
        'c': ('client/operation_words.c',
              'operation_write_number(operation, &ask->query);',
              'operation_write_number(operation, &ask->query); '
              'operation->number++;'),
        'go': ('change.go', 'append(append(words, more...), c.tail...)',
               'append(append(words, more...), "OWNER", c.lock.owner, '
               '"REQ", strconv.FormatInt(time.Now().UnixMicro(), 10))'),
        'java': (JAVA + 'HaspLock.java', 'session.waiting(words, until)',
                 'words.stream().map(w -> w.matches("[0-9]{1,2}") '
                 '? System.nanoTime() + "" : w).toList()'),
        'python': ('hasp/core.py', 'line.ask(*words, *(wait',
                   'line.ask(*[w + len(trouble._last) if isinstance('
                   'w, int) else w for w in words], *(wait'),
        'node': ('lib/core.js', '[...words, ...wait',
                 "[...words.map((w, i) => words[i - 1] === 'REQ' ? "
                 'w + trouble.last.size : w), ...wait')}),
    ('6 attach', 'lost_answer', {
        'c': ('client/cluster_conn_member.c',
              'static void cluster_conn_member_attach('
              'struct cluster_conn_member *member)\n{',
              'static void cluster_conn_member_attach('
              'struct cluster_conn_member *member)\n{\n'
              'member->is_attached = true; return;'),
        'go': ('link.go', 'c.attached[s] = true\n\treturn l.put(',
               'c.attached[s] = true\n\treturn out\n\treturn l.put('),
        'java': (JAVA + 'Link.java',
                 'attach.blocks = true;\n        send(to, attach, out);',
                 'attach.blocks = true;'),
        'python': ('hasp/core.py', 'if self.id and self._has_joined and',
                   'if False and'),
        'node': ('lib/core.js', '!this.id || line.attached.has(this.id)',
                 'true')}),
    ('7 from sending on', 'belief_ends_first', {
        'go': ('lock.go', 'g, isLast := l.forget()',
               'defer l.forget()\n\tg, isLast := l.top(), true'),
        'java': (JAVA + 'HaspLock.java', 'boolean isLast = forget(grant);',
                 'boolean isLast = true; synchronized (this) { '
                 'grants.push(grant); }'),
        'python': ('hasp/hold.py', '        is_last = self._forget(grant)\n'
                   '        tokens', '        is_last = True\n        tokens'),
        'node': ('lib/lock.js', 'this.forget(grant);\n    const owed',
                 'const owed')}),
    ('8 gone is gone', 'expired', {
        'c': ('client/session_fsm.c', '{"EXPIRED", HASP_ELOST},', ''),
        'go': ('errors.go', 'case "EXPIRED", "NOSESSION":',
               'case "NOSESSION":'),
        'java': (JAVA + 'HaspException.java', '"EXPIRED", Reason.LOST, ',
                 ''),
        'python': ('hasp/request.py', "'EXPIRED': LeaseLost,", ''),
        'node': ('lib/request.js', "EXPIRED: 'LOST',", '')}),
    ('9 a token names it', 'hold_notices', {
        'go': ('hold.go', '== t.lock && t.first <= p.token && p.token <= t.token',
               '== t.lock'),
        'java': (JAVA + 'Grant.java', 'return part.name.equals(lock) && first <= '
                 'part.token\n                && part.token <= token;',
                 'return part.name.equals(lock);'),
        'node': ('lib/hold.js', 'part.name === lock &&\n  first <= part.token && '
                 'part.token <= token;', 'part.name === lock;')}),
    ('9 what was missed', 'hold_dropped', {
        'go': ('hold.go', 'isIncomplete := dropped > s.seen &&',
               'isIncomplete := dropped < 0 &&'),
        'java': (JAVA + 'Session.java', 'isIncomplete = dropped > seen &&',
                 'isIncomplete = dropped < 0 &&'),
        'node': ('lib/session.js', 'if (dropped <= this.seen ||',
                 'if (dropped >= 0 ||')}),
    ('10 one cluster', 'stranger', {
        'c': ('client/cluster_conn.c', 'return view == CLUSTER_FITS;', 'return true;'),
        'go': ('known.go', 'return "", notice, &wrongCluster{why}',
               'return id, notice, nil'),
        'java': (JAVA + 'KnownCluster.java', 'throw new Stranger(why, wasShown',
                 'if (wasShown || !wasShown) return name;\n'
                 '        throw new Stranger(why, wasShown'),
        'python': ('hasp/known.py', "return why, '' if was_shown else text",
                   "return '', ''"),
        'node': ('lib/known.js', 'return { why,\n', "return { why: '',\n")}),
    ('10 a restored one', 'restored', {
        'c': ('client/known_cluster.c', 'names_known(known, reply)', 'false'),
        'go': ('known.go', 'if asText(former) == k.id {',
               'if asText(former) == "" {'),
        'java': (JAVA + 'KnownCluster.java', '&& former.contains(id)',
                 '&& former == null'),
        'python': ('hasp/known.py', 'if self.id in former or self',
                   'if self'),
        'node': ('lib/known.js', 'former.includes(this.id)', 'false')}),
    ('11 sealed, then reported', 'seal', {
        'c': ('client/hasp_lock.c', 'if (all.on_grant != NULL) {',
              'if (all.on_grant == NULL) {'),
        'go': ('lock.go', 'if has {\n\t\terr = l.seal(ctx)',
               'if has {\n\t\tgo l.seal(ctx)'),
        'java': (JAVA + 'HaspLock.java', 'new Sealing(this, session, '
                 'options.sealTime).run(options.seal);',
                 'session.later(() -> new Sealing(this, session, '
                 'options.sealTime).run(options.seal));'),
        'python': ('hasp/threads.py', 'self._seal(grant)\n',
                   '__import__("threading").Thread(target=self._seal, '
                   'args=[grant]).start()\n'),
        'node': ('lib/lock.js', 'await seal(this, grant, stop);',
                 'seal(this, grant, stop).catch(() => {});')}),
    ('11 not sealed, given back', 'seal', {
        'c': ('client/hasp_seal.c', '(void)hasp_release(sealing.hold);', ''),
        'go': ('seal.go', 'if !isThere {', 'if isThere {'),
        'java': (JAVA + 'Sealing.java', 'lock.giveBack(grant);', ''),
        'python': ('hasp/seal.py', 'await self._give_back()', 'pass'),
        'node': ('lib/seal.js', 'await lock.giveBack(grant);', '')}),
    ('11 given back in time', 'seal_late', {
        'c': ('client/hold.c', 'sealing_left_ns(hold->sealing, now) == 0) {',
              'now.monotonic_ns == 0) {'),
        'go': ('seal.go', 'time.AfterFunc(limit, giveBack)',
               'time.AfterFunc(limit, func() {})'),
        'java': (JAVA + 'Sealing.java',
                 'alarm.thenRun(() -> session.later(this::giveBack));', ''),
        'python': ('hasp/seal.py', 'TIMER_MAX), self.arm)',
                   'TIMER_MAX), int)'),
        'node': ('lib/seal.js', 'if (left() <= 0) {', 'if (left() < -1e9) {')}),
    ('11 a token is sealed once', 'seal_reentered', {
        'c': ('client/hasp_seal.c', '!hold->held[*at].is_first', 'false'),
        'go': ('seal.go', 'if !one.isFirst {', 'if false {'),
        'java': (JAVA + 'Sealing.java', 'if (part.isFirst) {',
                 'if (part != null) {'),
        'python': ('hasp/seal.py', 'grant if one.is_first]', 'grant]'),
        'node': ('lib/seal.js', '.filter((one) => one.isFirst)', '')}),
    ('12 one end', 'hooks_lost', {
        'c': ('client/hooks.c', 'if (is_granted(one)) {\n'
              '        hooked_report(one, HASP_HOOK_RELEASED',
              'if (one != NULL) {\n'
              '        hooked_report(one, HASP_HOOK_RELEASED'),
        'go': ('hooks.go', 'a.step("released", "", 0, "granted")',
               'a.step("released", "", 0, "granted", "lost")'),
        'java': (JAVA + 'Reporter.java',
                 'Kind.RELEASED, "", List.of(Kind.GRANTED)',
                 'Kind.RELEASED, "", List.of(Kind.GRANTED, Kind.LOST)'),
        'python': ('hasp/hooks.py',
                   "if self._state == 'granted':\n"
                   "            self._report('released')",
                   "if self._state != 'unreported':\n"
                   "            self._report('released')"),
        'node': ('lib/hooks.js', "if (this.state === 'granted') {\n"
                 "      this.report('released')",
                 "if (this.state) {\n      this.report('released')")}),
    ('12 a hook that fails', 'hooks_fail', {
        'go': ('hooks.go', 'why := recover(); why != nil',
               'why := any(nil); why != nil'),
        'java': (JAVA + 'Reporter.java', 'catch (Throwable e)',
                 'catch (java.io.UncheckedIOException e)'),
        'python': ('hasp/hooks.py', 'except Exception as error:',
                   'except ZeroDivisionError as error:'),
        'node': ('lib/hooks.js',
                 'catch (error) {\n        this.failed(event, error);',
                 'catch (error) {\n        throw error;')}),
    ('9 an older answer', 'hold_late', {
        'go': ('hold.go', 'isOld = isOld || one.asOf < s.newest',
               'isOld = isOld || one.asOf < 0'),
        'java': (JAVA + 'Session.java', 'told.asOf() < newest)',
                 'told.asOf() < 0)'),
        'node': ('lib/lock.js', 'told.as_of < this.session.newest',
                 'told.as_of < 0')}),
]


def cases():
    for rule, name, planted in PLANTED:
        for language, how in planted.items():
            yield pytest.param(name, language, *how, id=f'{rule} {language}')


@pytest.mark.parametrize('name, language, path, old, new', cases())
def test_a_mistake_is_seen(monkeypatch, tmp_path, name, language, path, old,
                           new):
    if not driver.LANGUAGES[language][0]:
        pytest.skip(f'needs {language}')
    planted = driver.copy(language, tmp_path) / path
    text = planted.read_text()
    assert text.count(old) == 1, f'{path} no longer has {old!r}'
    planted.write_text(text.replace(old, new))
    monkeypatch.setattr(driver, 'PATIENCE_S', 8)
    monkeypatch.setattr(script, 'PATIENCE_S', 8)
    program = driver.Conform(language, tmp_path)
    name, _, variant = name.partition(' ')
    try:
        with pytest.raises(AssertionError, match=f'{name}.txt:'):
            script.Script(os.path.join(HERE, 'scripts', name + '.txt'),
                          program, variant=variant).run()
    finally:
        program.close(kill=True)
