#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The manifests of packaging/kubernetes.

    tools/kubernetes.py alerts      write the PrometheusRule from alerts.yml
    tools/kubernetes.py check       it is that; exit 1 if not (quick)
    tools/kubernetes.py test        as `make test-kubernetes`: render all with
                                    `kubectl kustomize`, validate each document
                                    by the schemas in npm's kubernetes-models
                                    (`make deps-image` installs kubectl; npm
                                    takes four packages to build/kubernetes)

$KUBECTL is the kubectl to render with; it asks no server."""

import json
import os
import shutil
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.path.join(TOP, 'packaging', 'kubernetes')
RULE = os.path.join(FOLDER, 'overlays', 'monitoring', 'prometheusrule.yaml')
HEAD = """# SPDX-License-Identifier: MIT
# Made from packaging/alerts.yml by tools/kubernetes.py alerts.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: hasp
  labels: {app.kubernetes.io/name: hasp}
spec:
"""
# Versions whose schemas were seen to refuse a wrong manifest.
MODELS = ['kubernetes-models@5', '@kubernetes-models/validate@4',
          '@kubernetes-models/cert-manager@4',
          '@kubernetes-models/prometheus-operator@6']
VALIDATE = r"""
import fs from 'node:fs';
const places = {
  'v1': 'kubernetes-models/v1', 'apps/v1': 'kubernetes-models/apps/v1',
  'policy/v1': 'kubernetes-models/policy/v1',
  'networking.k8s.io/v1': 'kubernetes-models/networking.k8s.io/v1',
  'cert-manager.io/v1': '@kubernetes-models/cert-manager/cert-manager.io/v1',
  'monitoring.coreos.com/v1':
    '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1'};
let bad = 0, count = 0;
for (const document of JSON.parse(fs.readFileSync(0, 'utf8'))) {
  const what = `${document.kind} ${document.metadata.name}`;
  try {
    const models = await import(places[document.apiVersion]);
    const Model = models[document.kind];
    new Model(document).validate();
    count++;
  } catch (error) {
    console.error(`${what}: ${error.message}`);
    bad++;
  }
}
console.log(count);
process.exit(bad > 0 ? 1 : 0);
"""


def rule():
    with open(os.path.join(TOP, 'packaging', 'alerts.yml')) as file:
        lines = [line for line in file if not line.startswith('#')]
    return HEAD + ''.join('  ' + line if line.strip() else line
                          for line in lines)


def alerts():
    with open(RULE, 'w') as file:
        file.write(rule())


def check():
    with open(RULE) as file:
        if file.read() != rule():
            sys.exit('%s is not what packaging/alerts.yml says: run '
                     'tools/kubernetes.py alerts' % RULE)


def kustomizations():
    return sorted(folder for folder, _, names in os.walk(FOLDER)
                  if 'kustomization.yaml' in names)


def render(folder):
    kubectl = os.environ.get('KUBECTL', 'kubectl')
    done = subprocess.run([kubectl, 'kustomize', folder], text=True,
                          capture_output=True, timeout=60, check=False)
    if done.returncode != 0:
        sys.exit('%s: %s' % (folder, done.stderr))
    return done.stdout


def test():
    """Checks that everything renders, and that each document is valid."""
    check()
    work = os.path.join(TOP, 'build', 'kubernetes')
    os.makedirs(work, exist_ok=True)
    if not os.path.exists(work + '/node_modules/kubernetes-models'):
        if shutil.which('npm') is None:
            sys.exit('kubernetes: npm is missing; install it by: make '
                     'deps-test')
        subprocess.run(['npm', 'install', '--silent', '--no-save', '--prefix',
                        work, *MODELS], check=True, timeout=300)
    with open(work + '/validate.mjs', 'w') as file:
        file.write(VALIDATE)
    for folder in kustomizations():
        text = render(folder)
        count = validate(work, text)
        assert count == text.count('\nkind: ') + text.startswith('kind: '), (
            folder, count)
        print('%s: %d documents' % (os.path.relpath(folder, FOLDER), count))
    # Checks kinds and required members; unknown keys are not detected.
    for old, new in (('replicas: 3', 'replicas: three'),
                     ('containerPort: 7420', 'containerPort: client'),
                     ('maxUnavailable: 1', 'maxUnavailable: [1]')):
        text = render(os.path.join(FOLDER, 'base'))
        assert old in text
        assert validate(work, text.replace(old, new), quiet=True) is None, new
    print('a wrong document is refused')


def validate(work, text, quiet=False):
    """The number of valid documents; None if one is invalid."""
    done = subprocess.run(
        ['node', 'validate.mjs'], cwd=work, input=documents(text), text=True,
        capture_output=True, timeout=120, check=False)
    if done.returncode != 0 and not quiet:
        sys.exit(done.stderr)
    return int(done.stdout) if done.returncode == 0 else None


def documents(text):
    """As JSON, so that Node.js needs no YAML."""
    import yaml  # A system package; the quick parts do not need it.
    return json.dumps(list(yaml.safe_load_all(text)))


if __name__ == '__main__':
    PARTS = {'alerts': alerts, 'check': check, 'test': test}
    if len(sys.argv) != 2 or sys.argv[1] not in PARTS:
        sys.exit(__doc__)
    PARTS[sys.argv[1]]()
