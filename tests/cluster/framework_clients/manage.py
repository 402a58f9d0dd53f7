# SPDX-License-Identifier: MIT
"""A project of Django with one command: manage.py pay SECONDS. It adds 1 to the
balance of an account, in a transaction with a fence, SECONDS after it has read
the balance. Its database is the file DATABASE."""

import os
import sys
import time
import types

import django
from django.conf import settings

settings.configure(
    DATABASES={"default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ["DATABASE"], "OPTIONS": {"timeout": 20}}},
    HASP={"ttl": 2}, DEFAULT_AUTO_FIELD="django.db.models.AutoField",
)
django.setup()

from django.core import management  # noqa: E402
from django.db import models  # noqa: E402

from hasp.contrib.django import LockedCommand, fenced  # noqa: E402


class Account(models.Model):
    balance = models.IntegerField(default=0)
    fence = models.BigIntegerField(default=0)

    class Meta:
        app_label = "shop"


class Command(LockedCommand):
    lock_name = "shop/pay"
    lock_busy = os.environ.get("BUSY", "fail")
    lock_wait = float(os.environ.get("WAIT", 0))

    def add_arguments(self, parser):
        parser.add_argument("seconds", type=float)

    def handle(self, *_, seconds, **__):
        self.lock.guard()
        balance = Account.objects.get(pk=1).balance
        print("holds", self.lock.token, flush=True)
        if "STOPS" in os.environ:
            token, self.lock = self.lock.token, types.SimpleNamespace(
                token=self.lock.token, guard=lambda *_: None)
        time.sleep(seconds)
        with fenced(Account.objects.filter(pk=1), self.lock):
            Account.objects.filter(pk=1).update(balance=balance + 1)
            time.sleep(float(os.environ.get("INSIDE", 0)))
        print("paid", flush=True)


if __name__ == "__main__":
    try:
        management.call_command(Command(), *sys.argv[1:])
    except management.CommandError as error:
        sys.stderr.write(str(error) + "\n")
        sys.exit(error.returncode)
