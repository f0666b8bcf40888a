# Sourced: run_tests BUILD_FOLDER [PATTERN] runs every test binary of a build and adds up the results.
# Needs $root.

# Tests that measure times run alone, all others two at a time: they wait more than they compute.
measures_times='^(multiprocess_(lifecycle|paced|rejoin)|planner|simulator)_test$'

run_tests() {
  local binaries=("$1"/tests/*"${2:-}"*_test) results="$1/test-results" binary width
  rm -rf "$results"
  mkdir -p "$results"
  cd "$root"
  set -m  # process groups, to be ended with this one; and SIGINT stays a signal for what runs behind
  trap 'end_tests; exit 130' INT TERM
  for width in 2 1; do
    for binary in "${binaries[@]}"; do
      [[ -x "$binary" ]] || continue
      [[ $(basename "$binary") =~ $measures_times ]] && ((width == 2)) && continue
      [[ $(basename "$binary") =~ $measures_times ]] || ((width == 2)) || continue
      while (($(jobs -rp | wc -l) >= width)); do wait -n || true; done
      run_test "$binary" "$results/$(basename "$binary")" &
    done
    wait
  done
  trap - INT TERM
  set +m
  cat "$results"/*.count 2>/dev/null | {
    local passed=0 failed=0 skipped=0 p f s
    while read -r p f s; do
      passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    done
    printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
    ((failed == 0 && passed > 0))
  }
}

# run_test BINARY RESULT: RESULT.log, RESULT.xml, and RESULT.count with "passed failed skipped".
run_test() {
  local report="$2.xml" log="$2.log" began=$SECONDS code=0 total bad skips
  "$1" --gtest_output="xml:$report" --gtest_brief=1 </dev/null >"$log" 2>&1 || code=$?
  if [[ -s "$report" ]]; then
    total=$(grep -c '<testcase ' "$report" || true)
    skips=$(grep -c 'result="skipped"' "$report" || true)
    bad=$(sed -n 's/^<testsuites .*failures="\([0-9]*\)".*errors="\([0-9]*\)".*/\1 \2/p' "$report")
    bad=$((${bad% *} + ${bad#* }))
  else
    total=1 skips=0 bad=1  # it crashed before it could report
  fi
  ((code != 0 && bad == 0)) && bad=1
  echo "$((total - bad - skips)) $bad $skips" >"$2.count"
  {
    printf '%-24s %4d tests %5d s%s\n' "$(basename "$1")" "$total" $((SECONDS - began)) \
      "$( ((bad > 0)) && echo '  FAILED')"
    ((skips > 0)) && grep -A1 'result="skipped"' "$report" |
      sed -n 's/.*<testcase name="\([^"]*\)".*/  skipped: \1/p; s/.*<skipped message="\([^"]*\)".*/    \1/p'
    ((bad > 0)) && sed 's/^/  | /' "$log" | tail -n 120
  } >"$2.text" || true
  cat "$2.text"  # in one piece, whatever else runs
}

end_tests() {
  local pid
  for pid in $(jobs -rp); do kill -TERM -- "-$pid" 2>/dev/null || true; done
  wait
}
