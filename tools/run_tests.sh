# Sourced: run_tests BUILD_FOLDER [PATTERN] runs every test binary of a build and adds up the results.
# Needs $root.

run_tests() {
  local folder="$1/tests" pattern="${2:-}" passed=0 failed=0 skipped=0 binary
  local results="$1/test-results"
  rm -rf "$results"
  mkdir -p "$results"
  cd "$root"
  for binary in "$folder"/*"$pattern"*_test; do
    [[ -x "$binary" ]] || continue
    local name began seconds code=0 report total bad skips
    name=$(basename "$binary")
    report="$results/$name.xml"
    began=$SECONDS
    "$binary" --gtest_output="xml:$report" --gtest_brief=1 </dev/null >"$results/$name.log" 2>&1 || code=$?
    seconds=$((SECONDS - began))
    if [[ -s "$report" ]]; then
      total=$(grep -c '<testcase ' "$report" || true)
      skips=$(grep -c 'result="skipped"' "$report" || true)
      bad=$(sed -n 's/^<testsuites .*failures="\([0-9]*\)".*errors="\([0-9]*\)".*/\1 \2/p' "$report")
      bad=$((${bad% *} + ${bad#* }))
    else
      total=1 skips=0 bad=1  # it crashed before it could report
    fi
    ((code != 0 && bad == 0)) && bad=1
    passed=$((passed + total - bad - skips))
    failed=$((failed + bad))
    skipped=$((skipped + skips))
    printf '%-24s %4d tests %5d s%s\n' "$name" "$total" "$seconds" "$( ((bad > 0)) && echo '  FAILED')"
    ((skips > 0)) && grep -A1 'result="skipped"' "$report" |
      sed -n 's/.*<testcase name="\([^"]*\)".*/  skipped: \1/p; s/.*<skipped message="\([^"]*\)".*/    \1/p'
    ((bad > 0)) && sed 's/^/  | /' "$results/$name.log" | tail -n 120
  done
  printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
  ((failed == 0 && passed > 0))
}
