#!/usr/bin/env bash
# The benches and the ablation rows that are still unmeasured, on one GPU, in the order of their value, each with a time limit of its own.
# The runs of the plan (notebook 17c) are another command: populora reproduce --size gpu.
#
#   tools/gpu_session.sh OUT [WHEELS] [--only STEP,...] [--seconds S] [--dry-run] [--list]
#
# OUT      folder for everything: rows and records, a log for each step, session.tar.gz (all that is worth keeping, packed again after each step)
# WHEELS   folder with a vLLM wheel and what it needs; installed into OUT/vllm. Without it, vLLM is looked for in this Python, or
#          in $POPULORA_VLLM_PYTHON, and its rows of the table say "skipped" where it is missing
# --only   these steps and no others
# --seconds  start no step, and let none run, beyond this long
# --dry-run  the same steps at toy size on the CPU
# --list   print the steps with their limits in seconds
#
# A finished step leaves OUT/STEP.done and is left alone the next time; what was stopped goes on, or starts again, with the same command.
# The Python is $PYTHON, or python3; populora is taken from this source tree.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}
out="" wheels="" only="" seconds=100000 dry="" list=""
while [ $# -gt 0 ]; do
  case $1 in
    --only) only=$2; shift;;
    --seconds) seconds=$2; shift;;
    --dry-run) dry=1;;
    --list) list=1;;
    -*) echo "unknown option $1" >&2; exit 2;;
    *) if [ -z "$out" ]; then out=$1; elif [ -z "$wheels" ]; then wheels=$1; else echo "unknown argument $1" >&2; exit 2; fi;;
  esac
  shift
done
if [ -z "$out" ] && [ -z "$list" ]; then echo "usage: gpu_session.sh OUT [WHEELS] [--only STEP,...] [--seconds S] [--dry-run] [--list]" >&2; exit 2; fi

begin=$SECONDS failed=0
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}" OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false PYTHONUNBUFFERED=1

populora() { "$python" -W ignore -P -c "from populora.cli import main; raise SystemExit(main())" "$@"; }
export -f populora; export python

# step NAME SECONDS COMMAND...   run it once, with a limit; INT first, so that runs write checkpoints, and KILL half a minute later
step() {
  local name=$1 limit=$2 start=$SECONDS left status; shift 2
  if [ -n "$only" ]; then case ",$only," in *",$name,"*) ;; *) return;; esac; fi
  if [ -n "$list" ]; then echo "$name $limit"; return; fi
  if [ -e "$out/$name.done" ]; then echo "$name: was done"; return; fi
  left=$((seconds - (start - begin)))
  if [ "$left" -lt 15 ]; then echo "$name: NOT STARTED, no time left"; failed=1; return; fi
  if [ "$limit" -gt "$left" ]; then limit=$left; fi
  timeout --signal=INT --kill-after=30 "$limit" bash -c '"$@"' step "$@" >> "$out/$name.log" 2>&1 < /dev/null
  status=$?
  if [ $status -eq 0 ]; then touch "$out/$name.done"; else failed=1; fi
  pack
  echo "$name: $([ $status -eq 0 ] && echo done || echo "STOPPED, status $status, see $name.log") after $((SECONDS - start)) s of $limit"
}

# what is worth keeping, without checkpoints
pack() {
  (cd "$out" && find . -maxdepth 3 \( -name '*.jsonl' -o -name '*.json' -o -name '*.log' -o -name '*.md' -o -name '*.done' \) -not -path './vllm/*' \
    -not -name 'problems.jsonl' -print0 | tar --null -czf session.tar.gz.part -T - && mv session.tar.gz.part session.tar.gz)
}

install_vllm() {
  "$python" -m venv --system-site-packages "$out/vllm" && "$out/vllm/bin/python" -m pip install --quiet --no-index --no-deps "$1"/*.whl
}
export -f install_vllm; export out

challenger() {                       # challenger VARIANTS FIRST_SEED SEEDS SECONDS
  # shellcheck disable=SC2086
  populora challenger --config r_diverse --size "$size" --variants "$1" --seed "$2" --seeds "$3" --seconds "$4" --run "$out/challenger" \
    --record "$out/challenger_gpu.jsonl" --threads 1 --set verifier.workers=2 --set run.checkpoint_every=21 $small
}

retention() {                        # retention SECONDS, the seeds side by side
  local seed pids="" status=0
  for seed in $seeds; do
    # shellcheck disable=SC2086
    populora bench retention --base "$base" --device "$device" --seed "$seed" --seconds "$1" --workers 4 --out "$out/retention" $steps > "$out/retention-$seed.log" 2>&1 &
    pids="$pids $!"
  done
  for pid in $pids; do wait "$pid" || status=1; done
  cat "$out"/retention-*.log
  return $status
}
export -f challenger retention

if [ -n "$dry" ]; then
  size=demo device=cpu base=toy seeds="0 1" steps="--steps 1 1"
  small="--set run.iterations=1 --set run.challenger_steps=1 --set run.solver_steps=1 --set proposals.prompts=2 --set proposals.global_batch=2 --set solving.prompts=2
    --set solving.global_batch=2 --set curriculum.questions=8 --set voting.reward_answers=3 --set voting.label_answers=3 --set measures.set_size=4
    --set measures.anchor_per_cell=1 --set measures.anchor_samples=1 --set measures.entropy_rollouts=4 --set penalties.calibrate=16 --set adapter.rank=2
    --set proposals.max_tokens=64 --set curriculum.max_tokens=64 --set solving.max_tokens=16"
else
  size=gpu device=cuda base=tiny seeds="0 1 2" steps="" small="--set base.device=cuda --set rollout.max_rows=1024"
fi
export size device base seeds steps small
[ -n "$list" ] || mkdir -p "$out"
both="without-MAP,without-P_max-and-P_mean"
rest="without-P_max,without-P_mean,without-replay,without-abstraction,without-embedding,without-SAM"

if [ -n "$dry" ]; then
  step step-toy 60 populora bench step --base toy --device cpu --case-seconds 40 --out "$out/bench_step.jsonl"
  step challenger 90 challenger "$both" 0 1 80
  step retention 60 retention 50
  step training-toy 60 populora bench training --base toy --device cpu --out "$out/bench_training.jsonl"
  step rollouts-toy 60 populora bench rollouts --base toy --device cpu --case-seconds 30 --out "$out/bench_rollouts.jsonl"
else
  export OMP_NUM_THREADS=8                                       # for the operators of evolution
  step step-tiny 120 populora bench step --base tiny --device cuda --seconds 85 --case-seconds 60 --out "$out/bench_step.jsonl"
  step step-smollm2 150 populora bench step --base smollm2 --device cuda --seconds 45 --case-seconds 80 --out "$out/bench_step.jsonl"
  step step-qwen7b 180 populora bench step --base qwen7b --device cuda --case-seconds 160 --out "$out/bench_step.jsonl"
  export OMP_NUM_THREADS=1
  step challenger 270 challenger "$both" 0 3 235
  step retention 180 retention 140
  step training-qwen7b 120 populora bench training --base qwen7b --device cuda --seconds 80 --out "$out/bench_training.jsonl"
  if [ -n "$wheels" ]; then
    step vllm-install 120 install_vllm "$wheels"
    if [ -x "$out/vllm/bin/python" ]; then export POPULORA_VLLM_PYTHON="$out/vllm/bin/python"; fi
  fi
  step rollouts 600 populora bench rollouts --device cuda --seconds 400 --case-seconds 200 --out "$out/bench_rollouts.jsonl"
  step challenger-more 420 challenger "$rest" 1 2 385
fi
[ -n "$list" ] || [ $failed -eq 0 ] && exit 0
exit 1
