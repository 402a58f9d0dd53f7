# SPDX-License-Identifier: MIT
"""Both clients give a type checker the truth about themselves."""

import ast
import glob
import json
import os
import re
import shutil
import subprocess

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.path.join(HERE, '..')
NODE = os.path.join(HERE, '..', '..', 'node')


def read(*path):
    with open(os.path.join(*path), encoding='utf-8') as file:
        return file.read()


def untyped(function):
    """Names what has no annotation, 'return' among it."""
    has = function.args
    arguments = [*has.posonlyargs, *has.args, *has.kwonlyargs, has.vararg,
                 has.kwarg]
    names = [one.arg for one in arguments
             if one and not one.annotation and one.arg not in ('self', 'cls')]
    return names + ([] if function.returns else ['return'])


def test_every_python_function_is_typed_and_the_package_says_so():
    assert os.path.exists(os.path.join(PYTHON, 'hasp', 'py.typed'))
    assert 'hasp = ["py.typed"]' in read(PYTHON, 'pyproject.toml')
    count, missing = 0, []
    for path in glob.glob(os.path.join(PYTHON, 'hasp', '*.py')):
        for node in ast.walk(ast.parse(read(path))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                count += 1
                missing += [(os.path.basename(path), node.name, name)
                            for name in untyped(node)]
    assert count > 50 and missing == []


@pytest.mark.skipif(shutil.which('node') is None, reason='needs Node.js')
def test_the_typescript_types_are_those_of_the_code():
    told = {}
    text = read(NODE, 'index.d.ts')
    for kind, name, body in re.findall(
            r'^export (class|interface) (\w+).*?\{\n(.*?)^\}', text,
            re.DOTALL | re.MULTILINE):
        pattern = r'^  (?:static )?(\w+)(?:<T>)?\(' if kind == 'class' else \
            r'^  (?:readonly )?(\w+)\??:'
        told[name] = re.findall(pattern, body, re.MULTILINE)
    program = '''
        const hasp = require(process.argv[1]);
        const has = (type, name) => typeof type[name] === 'function' ||
          typeof type.prototype[name] === 'function';
        const told = JSON.parse(process.argv[2]);
        const public_ = (type) => Object.getOwnPropertyNames(
          type.prototype).filter((name) => name !== 'constructor');
        for (const type of Object.keys(hasp)) {
          for (const name of told[type]) {
            if (!has(hasp[type], name)) console.log(`${type}.${name}`);
          }
          if (type.match(/Election|Semaphore|ReadWriteLock/)) {
            for (const name of public_(hasp[type])) {
              if (!told[type].includes(name)) console.log(`${type}: ${name}`);
            }
          }
        }
        const list = (error) => /use one of (.*)/.exec(error.message)[1];
        try {
          hasp.Session.prototype.lock.call(
            Object.create(hasp.Session.prototype), 'a', { nonsense: 1 });
        } catch (error) { console.log(list(error)); }
        hasp.Session.open({ nonsense: 1 }).catch(
          (error) => console.log(list(error)));
    '''
    lines = subprocess.run(
        ['node', '-e', program, NODE, json.dumps(told)], check=True,
        capture_output=True, text=True, timeout=30).stdout.splitlines()
    assert len(told['Session']) >= 8 and len(told['Lock']) >= 10
    assert [sorted(line.split(', ')) for line in lines] == [
        sorted(told['LockOptions']), sorted(told['SessionOptions'])]
