# SPDX-License-Identifier: Apache-2.0
# Installs distribution packages that are missing; sourced by setup.sh and build-wheel.sh.

# say TEXT: a line of the script that sourced this file.
say() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2; }

give_up() {
  say "$1 Install these packages by hand, then run this again: ${missing[*]}"
  exit 2
}

# install_packages PACKAGE...: Debian packages, with the rights that this user has.
install_packages() {
  local package status as_root=()
  missing=()
  for package in "$@"; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    sudo -n true 2>/dev/null || give_up "installing packages needs root, or sudo without a password."
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq >/dev/null ||
    give_up "apt-get update failed (no network, or no package source)."
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >/dev/null || give_up "apt-get could not install every package."
}
