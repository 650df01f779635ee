#!/bin/sh
# Makes what the Compose file mounts as secrets, once: an existing file is kept.
# The folder is the owner's alone; the files are readable, because the containers' users are not the owner.
set -eu
cd "$(dirname "$0")"
mkdir -p secrets && chmod 0700 secrets
umask 022

keep() { [ -s "secrets/$1" ] || { printf '%s' "$2" > "secrets/$1"; echo "made secrets/$1"; }; }
secret() { openssl rand -base64 32 | tr '+/' '-_' | tr -d '='; }

keep sidecar-key "$(openssl rand -hex 32)"
keep agent-key "sk_agent_$(openssl rand -hex 8)_$(secret)"
keep approver-key "sk_approver_$(openssl rand -hex 8)_$(secret)"
keep postgres-password "$(openssl rand -hex 24)"
