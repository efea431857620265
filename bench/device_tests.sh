#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The tests on a machine with an NVIDIA GPU, from what bench/pack.sh packs or from a build: every case in a process of its own, several at
# a time, and one line a stage at the end. The status is 0 if all is well.
#
#   bench/device_tests.sh OUT [STAGE…]      logs go to OUT, one a case
#
#   tests      all of test_kernels, for sm_90a and for sm_80 code; `repeat` launches every shipped kernel at 20 shapes, 101 times each
#   memcheck   compute-sanitizer over the cases of `subset` below, for sm_90a and for sm_80 code
#   initcheck  the same
#   racecheck  the same, sm_80 code only: the tool does not know what mbarriers order
#
# Variables: JOBS (how many at a time), TASK_SECONDS (a case that takes longer has failed), COMPUTE_SANITIZER (its path), TLX_PTXAS,
# TLX_TEST_SEED (of `repeat`; printed), TLX_TEST_DEVICE (cuda:0).
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
tests=$root/tests/test_kernels
[ -x "$tests" ] || tests=$root/build/tests/test_kernels

# Every shipped kernel at each kind of shape, then operations that touch memory in other ways. Not the cases that stop a kernel on purpose.
subset='repeat*,descriptors*,tensor arguments*,reductions*,masks*,memory*,scans*,atomics*,schedules*'
filter() { [ "$1" = tests ] && echo '*' || echo "$subset"; }
names() { # the cases of a stage, in the order in which --first and --last count them
  "$tests" --list-test-cases --test-case="$(filter "$1")" | sed -n '/^=====/,/^=====/p' | grep -v '^====='
}

if [ "${1:-}" = --task ]; then # OUT STAGE TARGET NUMBER: one case
  out=$2 stage=$3 target=$4 number=$5
  log=$out/$stage.$target.$number
  tool=()
  if [ "$stage" != tests ]; then
    # Launches are tens of times slower here, and one launch says what there is to say; two, so that buffers are used again.
    export TLX_TEST_SHAPES=${TLX_TEST_SHAPES:-6} TLX_TEST_REPEAT=${TLX_TEST_REPEAT:-1}
    tool=("$COMPUTE_SANITIZER" --tool "$stage" --error-exitcode 86 --print-limit 20)
  fi
  start=$(date +%s)
  TLX_TEST_TARGETS=$target timeout -k 10 "$TASK_SECONDS" "${tool[@]}" "$tests" --test-case="$(filter "$stage")" --first="$number" \
    --last="$number" > "$log.log" 2>&1
  echo "$? $(($(date +%s) - start))" > "$log.status"
  exit 0
fi

[ $# -ge 1 ] || { sed -n '3,16p' "$0" | cut -c3-; exit 2; }
[ -x "$tests" ] || { echo "no test_kernels in $root/tests or $root/build/tests"; exit 2; }
out=$(mkdir -p "$1" && cd "$1" && pwd)
shift
stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(tests memcheck initcheck racecheck)
rm -f "$out"/*.log "$out"/*.status

export TLX_TEST_DEVICE=${TLX_TEST_DEVICE:-cuda:0} TLX_KERNELS_DIR=$root/kernels TASK_SECONDS=${TASK_SECONDS:-240}
export TLX_TEST_SEED=${TLX_TEST_SEED:-$((RANDOM * 32768 + RANDOM))}
if [ -z "${COMPUTE_SANITIZER:-}" ]; then
  COMPUTE_SANITIZER=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2> /dev/null | tail -1)
fi
export COMPUTE_SANITIZER
jobs=${JOBS:-$(nproc)}
echo "device $TLX_TEST_DEVICE, $jobs at a time, TLX_TEST_SEED=$TLX_TEST_SEED, commit $(cat "$root/commit" 2> /dev/null ||
  git -C "$root" rev-parse HEAD 2> /dev/null || echo unknown), sanitizer ${COMPUTE_SANITIZER:-none}"

runs=() # STAGE TARGET
for stage in "${stages[@]}"; do
  case $stage in
    tests | memcheck | initcheck) runs+=("$stage sm_90a" "$stage sm_80") ;;
    racecheck) runs+=("$stage sm_80") ;;
    *) echo "no stage '$stage'"; exit 2 ;;
  esac
  [ "$stage" = tests ] || [ -n "$COMPUTE_SANITIZER" ] || { echo "no compute-sanitizer: set COMPUTE_SANITIZER"; exit 2; }
done

# The slow ones first, so that no processor waits for them at the end: the repetitions.
tasks() {
  local run stage number name
  for run in "${runs[@]}"; do
    read -r stage _ <<< "$run"
    number=0
    while IFS= read -r name; do
      number=$((number + 1))
      case $name in repeat*) echo "0 $run $number" ;; *) echo "1 $run $number" ;; esac
    done < <(names "$stage")
  done | sort -s -k1,1n | cut -d' ' -f2-
}
begun=$(date +%s)
tasks | xargs -P "$jobs" -L 1 "$0" --task "$out"

failed_stages=0
for run in "${runs[@]}"; do
  read -r stage target <<< "$run"
  mapfile -t list < <(names "$stage")
  cases=0 failed=() slowest=0 slowest_name=- assertions=0 errors=0
  for ((i = 1; i <= ${#list[@]}; ++i)); do
    log=$out/$stage.$target.$i
    read -r status seconds < "$log.status" 2> /dev/null || { status=lost seconds=0; }
    cases=$((cases + 1))
    n=$(sed -n 's/^\[doctest\] assertions: *\([0-9]*\).*/\1/p' "$log.log" | tail -1)
    assertions=$((assertions + ${n:-0}))
    if [ "$stage" != tests ]; then
      # "ERROR SUMMARY: 3 errors", racecheck: "RACECHECK SUMMARY: 3 hazards displayed (2 errors, 1 warnings)"
      n=$(sed -n 's/.*SUMMARY: *\([0-9]*\) \(error\|hazard\).*/\1/p' "$log.log" | tail -1)
      [ -n "$n" ] || { [ "$status" = 0 ] && status="no summary of the tool"; } # it did not look at the program at all
      errors=$((errors + ${n:-0}))
      [ "${n:-0}" = 0 ] || [ "$status" != 0 ] || status="the tool reports"
    fi
    [ -n "$(grep '^\[doctest\] Status: SUCCESS!' "$log.log")" ] || { [ "$status" = 0 ] && status="no result"; }
    [ "$status" = 124 ] && status="over $TASK_SECONDS s"
    [ "$status" = 0 ] || failed+=("$(basename "$log.log") (${list[i - 1]}: status $status)")
    [ "$seconds" -le "$slowest" ] || { slowest=$seconds slowest_name=${list[i - 1]}; }
  done
  verdict=ok
  [ ${#failed[@]} = 0 ] && [ "$cases" -gt 0 ] || { verdict=FAILED failed_stages=1; }
  line="$verdict: $stage, $target code: $((cases - ${#failed[@]})) of $cases cases passed, $assertions assertions"
  [ "$stage" = tests ] || line+=", $errors errors of the tool"
  line+="; slowest $slowest s ($slowest_name)"
  [ ${#failed[@]} = 0 ] || line+="; failed: $(printf '%s; ' "${failed[@]:0:8}")"
  [ ${#failed[@]} -le 8 ] || line+="and $((${#failed[@]} - 8)) more"
  echo "$line"
done
echo "$(($(date +%s) - begun)) s in all"
exit $failed_stages
