# SPDX-License-Identifier: MIT
"""Users, roles, rights and quotas."""

from state import BAD, LIMIT, SHARED, Result, ok, size

LEADER, ANYONE, LOCAL = 0, 1, 2
NAMED = ('read', 'share', 'lock', 'fence', 'kick')
OF_CLUSTER = ('sessions', 'blacklist', 'cluster', 'backup', 'audit')
ALONE = ('admin', 'access')  # Only in the role 'admin'.
# In the order of enum quota_key. The model only knows whether a request uses
# more bytes, so their bound is the standard or nothing.
QUOTAS = ('sessions', 'holds', 'waits', 'bytes')
STANDARD = (10000, 100000, 10000, 64 << 20, 1000, 10000)
BOUND_MAX = (100000000, 100000000, 100000000, 64 << 30, 100000000, 100000000)
# The right that an entry needs; the position of the name after the operation.
DEMANDS = {
    'please': ('share', 4), 'note': ('share', 4), 'break': ('kick', 4),
    'fence': ('fence', 4), 'unfence': ('kick', 4),
    'bladd': ('blacklist', None), 'blrem': ('blacklist', None),
    'limit': ('admin', None), 'feature': ('cluster', None),
    'quarover': ('cluster', None), 'user': ('access', None),
    'unuser': ('access', None), 'secret': ('access', None),
    'unsecret': ('access', None), 'role': ('access', None),
    'unrole': ('access', None), 'access': ('access', None),
    'revoke': ('access', None),
}
BY_USERS = ('open', 'died', 'close', 'rel', 'relif', 'cancel', 'object', 'acq', 'conv',
            'redis')
LEADER_TOO = ('feature', 'quarover')
ONLY_FREE = ('limit', 'died', 'close', 'rel', 'relif', 'cancel', 'object', 'bladd',
             'blrem', 'unfence', 'user', 'unuser', 'secret', 'unsecret', 'role',
             'unrole', 'access', 'revoke')
NAME_LETTERS = set('abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'
                   '0123456789._-')


def letters(text):
    """The text that a word encodes."""
    return '' if text == '-' else '#' * size(text) if text[0] == '*' else text


def name_is_good(name):
    return 1 <= size(name) <= 64 and set(letters(name)) <= NAME_LETTERS


class User:
    def __init__(self, number, name):
        self.number = number
        self.name = name
        self.changed = 0
        self.disabled = False
        self.roles = []
        self.bounds = STANDARD
        self.secrets = []  # (number, hash, label)


class Grant:
    """'lock,read:abc*' or 'sessions', in an operator's syntax."""

    def __init__(self, text):
        verbs, colon, name = text.partition(':')
        self.verbs = verbs.split(',')
        self.is_prefix = name.endswith('*')
        self.name = name[:-1] if self.is_prefix else name
        self.has_name = bool(colon)
        self.text = text

    def is_good(self):
        if any(verb in ALONE for verb in self.verbs):
            return False
        if all(verb in OF_CLUSTER for verb in self.verbs):
            return not self.name and not self.is_prefix
        return all(verb in NAMED for verb in self.verbs) and \
            bool(self.name or self.is_prefix)

    def covers(self, verb, name):
        if verb not in self.verbs and \
                not (verb == 'share' and 'lock' in self.verbs):
            return False
        if verb in OF_CLUSTER:
            return True
        name = letters(name)
        return name.startswith(self.name) if self.is_prefix else \
            name == self.name


class Users:
    """Users, roles, rights and quotas."""

    def __init__(self):
        super().__init__()
        self.user = ANYONE  # The user of the entry ...
        self.denied = None  # ... and the right that it lacks.
        self.users = {}  # By name; number 0: removed.
        self.roles = {}  # By name: (changed, grants)
        self.built_in = {ANYONE: User(ANYONE, 'anyone'),
                         LOCAL: User(LOCAL, 'local')}
        self.revoked = {}  # fingerprint: (subject, index)

    def found(self):
        """The users and roles of a new cluster."""
        token = self.base + self.index
        self.roles['observer'] = (token, [Grant('read:*'), Grant('sessions')])
        admin = self.users['admin'] = User(LOCAL + token, 'admin')
        admin.changed, admin.roles = token, ['admin']

    def numbered_user(self, number):
        if number in self.built_in:
            return self.built_in[number]
        return next((u for u in self.users.values()
                     if u.number == number != 0), None)

    # --- Rights -----------------------------------------------------------

    def may(self, number, verb, name='-'):
        user = self.numbered_user(number)
        if not user or user.disabled:
            return False
        if number == ANYONE:
            return verb not in ('access', 'admin', 'backup')
        return number == LOCAL or 'admin' in user.roles or \
            any(grant.covers(verb, name) for role in user.roles
                for grant in self.roles[role][1])

    def cut_off(self, number):
        """Why a user has no rights, or None."""
        user = self.numbered_user(number)
        if not user:
            return 'the user was removed'
        if not user.disabled:
            return None
        if number == ANYONE:
            return 'not authenticated: present a client certificate or ' \
                   'use AUTH'
        return f"user '{user.name}' is disabled"

    def lacks(self, number, verb, name='-'):
        """Why a user lacks the right, or None."""
        if self.may(number, verb, name):
            return None
        if number == ANYONE:
            return "only a user with the role 'admin' may do that: say who " \
                   "you are, or use the node's own socket (hasp --socket)"
        user = self.numbered_user(number)
        text = f"user '{user.name}' "
        if verb not in NAMED:
            text += f"has no right '{verb}'"
        elif name == '-':
            text += f'may not {verb} all names: ask for a prefix that a role ' \
                    'has'
        else:
            text += f"may not {verb} '{letters(name)}'"
        if not user.roles:
            return text + ' (no roles)'
        more = ', ...' if len(user.roles) > 4 else ''
        return f'{text} (roles: {", ".join(user.roles[:4])}{more})' \
            .replace(', ...', ' ...')

    def demands(self, operation, words):
        """(verb, name) of each right that the entry needs."""
        if operation == 'acq':
            mode, is_barging, delay, hold = \
                int(words[4]), words[8] == '1', int(words[10]), int(words[11])
            verb = 'share' if mode == SHARED and \
                not (is_barging or delay or hold) else 'lock'
            return [(verb, name) for name in words[12:]]
        if operation == 'conv':
            return [('lock', words[4])] if int(words[5]) != SHARED else []
        if operation == 'redis':
            return [('lock', words[i]) for i in range(2, len(words), 8)
                    if words[i + 3] in '12']
        verb, at = DEMANDS.get(operation, (None, None))
        return [(verb, words[at] if at else '-')] if verb else []

    def denial(self, operation, words):
        """The right that the asker lacks, or None."""
        if operation not in BY_USERS and operation not in DEMANDS or \
                operation in LEADER_TOO and self.user == LEADER:
            return None
        why = self.cut_off(self.user)
        if why:
            return Result('noauth', text=why.replace(' ', '_'))
        for verb, name in self.demands(operation, words):
            why = self.lacks(self.user, verb, name)
            if why:
                return Result('noperm', text=why.replace(' ', '_'))
        return None

    # --- Quotas -----------------------------------------------------------

    def use(self, number, key):
        mine = [s for s in self.sessions.values() if s.user == number]
        waits = sum(len(s.waits) for s in mine)
        return {'sessions': len(mine), 'waits': waits,
                'holds': waits + sum(len(s.holds) for s in mine)}[key]

    def is_over_quota(self, **more):
        """True if this many more exceed the asker's quota. Bytes: any."""
        if self.user in (LEADER, ANYONE, LOCAL):
            return False
        bounds = dict(zip(QUOTAS, self.numbered_user(self.user).bounds))
        return any(not bounds[key] if key == 'bytes' else
                   self.use(self.user, key) + count > bounds[key]
                   for key, count in more.items() if count > 0)

    # --- Changes ------------------------------------------------------

    def wait_denial(self, wait):
        """Why its user can no longer wait for that, or None."""
        verb = 'share' if wait.mode == SHARED and \
            not (wait.delay or wait.hold) else 'lock'
        number = wait.session.user
        if self.may(number, verb, wait.lock.name):
            return None
        return self.cut_off(number) or \
            self.lacks(number, verb, wait.lock.name)

    def access_changed(self, numbers, is_told=False):
        """Ends waits of these users that are no longer allowed."""
        for s in sorted(self.sessions.values(), key=lambda s: s.id):
            if s.user not in numbers:
                continue
            for wait in list(s.waits):
                why = next(filter(None, map(self.wait_denial, wait.group)),
                           None)
                if wait in s.waits and why:
                    self.end_wait(wait, 'withdrawn', Result(
                        'noperm', text=why.replace(' ', '_')))
            if is_told and not s.listed:
                why = self.cut_off(s.user)
                self.out.append(f'C {s.id} {s.ttl} ' + (
                    'blacklisted ' + why.replace(' ', '_') if why else
                    'pardoned -'))
        self.out.append('a')

    def op_user(self, *words):
        name, changed, disabled, reused, roles = words[4:9]
        bounds = tuple(map(int, words[9:]))

        def do(_s, _owner, _req):
            user = self.users.get(name)
            was = user and (user.disabled, user.roles, user.bounds)
            new = disabled == '1', wanted, bounds + STANDARD[len(bounds):]
            if user and user.number and was == new:
                return ok(token=user.changed)
            if int(changed) != (user.changed if user and user.number else 0):
                return BAD
            if user and not user.number and reused != '1':
                return BAD
            if not user or not user.number:
                user = user or User(0, name)
                user.number = LOCAL + self.base + self.index
                self.users[name] = user
            is_told = user.disabled != new[0]
            user.disabled, user.roles, user.bounds = new
            user.changed = self.base + self.index
            self.access_changed([user.number], is_told)
            return ok(token=user.changed)
        wanted = [] if roles == '-' else roles.split(',')
        is_bad = not name_is_good(name) or \
            name in ('anyone', 'local', 'default') or len(wanted) > 16 or \
            len(bounds) > len(STANDARD) or \
            any(bound > most for bound, most in zip(bounds, BOUND_MAX)) or \
            any(role != 'admin' and role not in self.roles
                for role in wanted) or len(set(wanted)) < len(wanted)
        return self.numbered(words, ('user', words[4:]), do, is_bad, True)

    def op_unuser(self, *words):
        def do(_s, _owner, _req):
            user = self.users.get(words[4])
            if not user or not user.number:
                return ok(0)
            if not user.disabled or self.use(user.number, 'sessions'):
                return BAD
            user.number, user.roles, user.secrets = 0, [], []
            user.disabled, user.changed = False, self.base + self.index
            self.access_changed([])
            return ok(1)
        return self.numbered(words, ('unuser', words[4:]), do, False, True)

    def op_secret(self, *words):
        name, proof, label = words[4], int(words[5]), words[6]

        def do(_s, _owner, _req):
            user = self.users.get(name)
            if not user or not user.number:
                return BAD
            for owner in self.users.values():
                for secret in owner.secrets:
                    if secret[1] == proof:
                        return ok(token=secret[0]) if owner is user else BAD
            if size(label) > 128 or not proof:
                return BAD
            if len(user.secrets) >= 4:
                return LIMIT
            user.secrets.append((self.base + self.index, proof, label))
            self.access_changed([user.number])
            return ok(token=self.base + self.index)
        return self.numbered(words, ('secret', words[4:]), do, False, True)

    def op_unsecret(self, *words):
        def do(_s, _owner, _req):
            user = self.users.get(words[4])
            if not user or not user.number:
                return BAD
            kept = [one for one in user.secrets if one[0] != int(words[5])]
            if kept == user.secrets:
                return ok(0)
            user.secrets = kept
            self.access_changed([user.number])
            return ok(1)
        return self.numbered(words, ('unsecret', words[4:]), do, False, True)

    def op_role(self, *words):
        name, changed = words[4], int(words[5])
        grants = [Grant(text) for text in words[6:]]

        def do(_s, _owner, _req):
            now, old = self.roles.get(name, (0, None))
            if old is not None and \
                    [g.text for g in old] == [g.text for g in grants]:
                return ok(token=now)
            if changed != now:
                return BAD
            self.roles[name] = self.base + self.index, grants
            self.access_changed([user.number for user in self.users.values()
                                 if name in user.roles])
            return ok(token=self.base + self.index)
        is_bad = not name_is_good(name) or name == 'admin' or \
            len(grants) > 64 or not all(grant.is_good() for grant in grants)
        return self.numbered(words, ('role', words[4:]), do, is_bad, True)

    def op_unrole(self, *words):
        def do(_s, _owner, _req):
            if any(words[4] in user.roles for user in self.users.values()) \
                    and words[4] in self.roles:
                return BAD
            return ok(int(self.roles.pop(words[4], None) is not None))
        return self.numbered(words, ('unrole', words[4:]), do, False, True)

    def op_access(self, *words):
        required, forced = words[4] == '1', words[5] == '1'

        def do(_s, _owner, _req):
            anyone = self.built_in[ANYONE]
            if anyone.disabled == required:
                return ok()
            if required and not forced and self.use(ANYONE, 'sessions'):
                return BAD
            anyone.disabled = required
            self.access_changed([ANYONE], True)
            return ok()
        return self.numbered(words, ('access', words[4:]), do, False, True)

    def op_revoke(self, *words):
        fingerprint, subject = int(words[4]), words[5]

        def do(_s, _owner, _req):
            if fingerprint in self.revoked:
                return ok(0)
            self.revoked[fingerprint] = subject, self.index
            self.out.append('a')
            return ok(1)
        return self.numbered(words, ('revoke', words[4:]), do,
                             not fingerprint or size(subject) > 128, True)

    def dump_users(self):
        out = [f'A {int(self.built_in[ANYONE].disabled)}']
        everyone = [*self.built_in.values(),
                    *sorted(self.users.values(), key=lambda u: u.name)]
        for user in everyone:
            uses = [self.use(user.number, key) for key in QUOTAS[:3]] \
                if user.number else [0, 0, 0]
            out.append(f'U {user.name} {user.number} {user.changed} '
                       f'{int(user.disabled)} {",".join(user.roles) or "-"} '
                       f'{" ".join(map(str, uses))}')
            out += [f'u {number} {proof} {label}'
                    for number, proof, label in user.secrets]
        for name, (changed, grants) in sorted(self.roles.items()):
            out.append(f'O {name} {changed} '
                       f'{" ".join(grant.text for grant in grants)}'.strip())
        return out + [f'V {fingerprint} {subject} {index}'
                      for fingerprint, (subject, index)
                      in sorted(self.revoked.items())]
