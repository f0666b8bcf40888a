# Sourced by ./recycle, ./test and .ci/run: installs what is missing and builds. Messages go to
# standard error, so that the output of the program itself stays clean.
#
# Needs $root, the repository's root.

build="$root/build/dev"
export CCACHE_SLOPPINESS=pch_defines,time_macros

say() { printf 'recycle: %s\n' "$*" >&2; }

# install_packages LIST: installs the packages of tools/LIST.txt that are missing. Root installs them;
# anybody else is told the one command to run (exit code 2). Looked at once per change of the list.
install_packages() {
  local list="$root/tools/$1.txt" stamp="$build/.$1" missing=() package
  [[ "$stamp" -nt "$list" ]] && return
  while read -r package; do
    [[ -z "$package" || "$package" == \#* ]] && continue
    [[ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" == installed ]] ||
      missing+=("$package")
  done <"$list"
  if ((${#missing[@]} > 0)); then
    local command="apt-get install -y --no-install-recommends ${missing[*]}"
    if ((EUID != 0)); then
      say "these Debian packages are missing; run this as root, then call again:"
      printf '  %s\n' "$command" >&2
      exit 2
    fi
    say "installing ${#missing[@]} Debian packages: ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    local log
    log=$(mktemp)
    if ! { apt-get update && $command; } >"$log" 2>&1; then
      tail -n 20 "$log" >&2
      say "apt-get failed (whole log: $log); the command was: $command"
      exit 1
    fi
    rm -f "$log"
  fi
  mkdir -p "$build"
  touch "$stamp"
}

# build_targets STAMP [targets...]: configures and builds unless nothing has changed since the last
# build under that stamp. Without targets: everything.
build_targets() {
  local stamp="$build/.built-$1" log="$build/build.log"
  shift
  mkdir -p "$build"
  if [[ -e "$stamp" ]] && [[ -z "$(find "$root/src" "$root/proto" "$root/cmake" "$root/tests" \
    "$root/bench" "$root/CMakeLists.txt" "$root/CMakePresets.json" -newer "$stamp" -print -quit)" ]]; then
    return
  fi
  exec 9>"$build/.lock"
  flock 9  # one build at a time; the others find it done
  touch "$stamp.next"
  if [[ ! -e "$build/build.ninja" ]]; then
    say "configuring"
    (cd "$root" && cmake --preset dev) >"$log" 2>&1 || build_failed "$log"
  fi
  if [[ -t 2 ]]; then
    say "building (the first time takes some minutes)"
    ninja -C "$build" "$@" >&2 || exit 1
  else
    say "building (log: $log)"
    ninja -C "$build" "$@" >"$log" 2>&1 || build_failed "$log"
  fi
  mv "$stamp.next" "$stamp"
  exec 9>&-
}

build_failed() {
  tail -n 40 "$1" >&2
  say "the build failed (whole log: $1)"
  exit 1
}
