"""The reference package's float32 model over an archive, for making goldens; no test imports this.

    pip install 'cactus-needle[train]==3.2.8'     for Needle 3
    pip install 'cactus-needle[train]==2.0.15'    for Needle 2

Each generation needs an environment of its own: both packages are called `needle`. Archives come as bytes. Their
weights go into the model as the reference reads them; its permutations are the archive's, and the heads' matrices are
used as stored.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from needle.model import architecture as arch
from needle.model import export, quantize

GENERATION = {0x05E12A83: 2, 0x05E12A84: 3}[export.TAG]
HEADS = {2: {1: "contrastive_head", 2: "confidence_head"}, 3: {1: "embedding_head", 2: "confidence_head"}}[GENERATION]
MLP = {2: "d1 d2 d3", 3: "d1 d2 b2 d3 d4 w1a w1b w2a w2b w3a w3b cond_v cond_u"}[GENERATION].split()
MHC = ("a_pre", "a_post", "a_res", "b_pre", "b_post", "b_res", "phi_pre", "phi_post", "phi_res")


def config_of(g: dict[str, Any], **more: Any) -> arch.TransformerConfig:
    orders = g["engram_orders"]
    common = dict(
        vocab_size=g["vocab_size"], d_model=g["d_model"], num_heads=g["num_heads"], num_kv_heads=g["num_kv_heads"],
        num_layers=g["num_layers"], max_seq_len=g["max_seq_len"], rope_theta=g["rope_theta"], dtype="float32",
        flash=False, remat=False, mhc_lanes=g["mhc_lanes"], engram_orders=orders, engram_slots=g["engram_slots"],
        engram_heads=g["num_engram_tables"] // len(orders) if orders else 0, engram_layers=g["engram_layers"],
        kv_bits=g["kv_bits"], kv_window=g["kv_window"],
    )  # fmt: skip
    if GENERATION == 3:
        common |= dict(
            qk_head_dim=g["qk_head_dim"], v_head_dim=g["v_head_dim"], engram_seed_heads=g["engram_seed_heads"],
            global_layers=g["global_layers"], sliding_window=g["sliding_window"], qkv_conv_taps=g["qkv_conv_taps"],
            out_vocab=0 if g["out_vocab"] == g["vocab_size"] else g["out_vocab"],
        )  # fmt: skip
    else:
        common |= dict(attn_dim=g["num_heads"] * g["head_dim"])
    return arch.TransformerConfig(**{**common, **more})


def sinkhorn(logits: Any, iters: int = 20) -> Any:
    """The reference's rounds as a loop: compiling them one after the other takes most of a run."""

    def round_of(_: int, x: Any) -> Any:
        x = x - jax.nn.logsumexp(x, axis=-1, keepdims=True)
        return x - jax.nn.logsumexp(x, axis=-2, keepdims=True)

    return jnp.exp(jax.lax.fori_loop(0, iters, round_of, logits))


arch._sinkhorn = sinkhorn


class Reference:
    """logits, cells and heads of token ids, quantised as deployed or in plain float."""

    def __init__(self, archive: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "archive.cact")
            path.write_bytes(archive)
            g, tensors = export.read_export(str(path))
        self._build(dict(g), tensors)

    @classmethod
    def of(cls, geometry: dict[str, Any], tensors: list[Any]) -> Reference:
        """A model of dense tensors in the archive's order."""
        out = object.__new__(cls)
        out._build(geometry, tensors)
        return out

    def exported(self, tokenizer: bytes, group: int, bits: float = 4) -> bytes:
        """The archive that the reference writes."""
        export._tokenizer_blob = lambda _: tokenizer
        vocab = type("Tokenizer", (), {"vocab_size": self.config.vocab_size})()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "archive.cact")
            export.write_export(
                self.params, self.config, str(path), bits=bits, group=group, kv_window=self.config.kv_window,
                tokenizer=tokenizer if GENERATION == 3 else vocab,
            )  # fmt: skip
            return path.read_bytes()

    def _build(self, g: dict[str, Any], tensors: list[Any]) -> None:
        self.geometry = g
        layers, d = g["num_layers"], g["d_model"]
        it = iter(tensors)
        params: dict[str, Any] = {"embedding": {"embedding": next(it)}}
        taps = ["q_taps", "k_taps", "v_taps"] if g.get("qkv_conv_taps") else []
        names = [
            *("norm_in", "q_proj", "k_proj", "v_proj"), *taps, *("q_norm", "k_norm", "gate_proj", "out_proj"),
            *("post_norm", "attn_gate", "pre_hada"), *MLP,
        ]  # fmt: skip
        blocks = [{n: next(it) for n in names} for _ in range(layers)]
        pile = {n: np.stack([b[n] for b in blocks]) for n in names}
        projections = ("q_proj", "k_proj", "v_proj", "gate_proj", "out_proj")
        attn: dict[str, Any] = {p: {"kernel": pile[p].transpose(0, 2, 1)} for p in projections}
        attn |= {t: pile[t] for t in taps}
        attn |= {n: {"scale": pile[n]} for n in ("q_norm", "k_norm")}
        block = {
            "ZCRMSNorm_0": {"scale": pile["norm_in"]},
            "self_attn": attn, "post_attn_norm": {"scale": pile["post_norm"]},
            "attn_gate": pile["attn_gate"][:, 0], "pre_hada_norm": {"scale": pile["pre_hada"]},
            "hadamard_mlp": {n: pile[n] for n in MLP},
        }  # fmt: skip
        stack: dict[str, Any] = {"layers": {"block": block}}
        for n in MHC:
            w = next(it)
            stack[f"mhc_{n}"] = w.reshape(layers, -1, w.shape[-1]).transpose(0, 2, 1) if n.startswith("phi") else w
        if GENERATION == 3:
            perms = tuple(jnp.asarray(next(it).astype(np.int32)) for _ in range(2))
            arch._hada_perms = lambda n, split=False: perms
        for s in range(len(g["engram_layers"])):
            params[f"engrams_{s}"] = {
                "embedding": next(it).reshape(g["num_engram_tables"], g["engram_slots"], -1),
                "key_proj": {"kernel": next(it).T}, "value_proj": {"kernel": next(it).T}, "taps": next(it),
            }  # fmt: skip
        stack["final_norm"] = {"scale": next(it)}
        params["stack"] = stack
        self.more: dict[str, int] = {}
        rest = list(it)
        self.heads: list[str] = []
        if len(rest) > 1:
            at = 1
            for code in rest[0].astype(int):
                if GENERATION == 3:
                    probes, gain, query, row_bias, proj, bias = rest[at : at + 6]
                    at += 6
                    head = {"probes": probes.reshape(*gain.shape, d), "gain": gain, "query": query}
                    head["row_bias"] = row_bias
                    name = HEADS[int(code)].removesuffix("_head")
                    self.more |= {f"{name}_probes": gain.shape[1], f"{name}_queries": len(query)}
                else:
                    probes, proj, bias = rest[at : at + 3]
                    at += 3
                    head = {"probes": probes}
                head["proj"] = {"kernel": proj.T} | ({"bias": bias} if code == 2 else {})
                if code == 1:
                    head |= {"log_temp": np.float32(0)} | ({"bias": np.float32(0)} if GENERATION == 3 else {})
                    self.more |= {"embedding_dim": len(proj), "contrastive_dim": len(proj)}
                params[HEADS[int(code)]] = head
                self.heads.append(HEADS[int(code)])
        known = {f.name for f in arch.TransformerConfig.__dataclass_fields__.values()}
        self.config = config_of(g, **{k: v for k, v in self.more.items() if k in known})
        self.params = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), params)
        self._prepare()

    def _prepare(self) -> None:
        self.model = arch.SimpleAttentionNetwork(self.config)
        quantize.configure_deploy(act_bits=8, kv_bits=self.geometry["kv_bits"])
        arch.head_weight = lambda w, *a, **k: w
        if GENERATION == 2:  # its heads' shapes are constants
            for name in self.heads:
                kind = {"contrastive_head": arch.ContrastiveHead, "confidence_head": arch.ConfidenceHead}[name]
                kind.PROBES = self.params[name]["probes"].shape[0]

    def at_depth(self, depth: int) -> Reference:
        """The reference's own rung."""
        out = object.__new__(Reference)
        out.geometry, out.heads = self.geometry, self.heads
        out.config = arch.ladder_config(self.config, depth)
        out.params = arch.ladder_slice(self.params, self.config, depth)
        out._prepare()
        return out

    def _apply(self, tokens: Any, *, mask: Any = None, **more: Any) -> np.ndarray:
        """One compilation of everything, which takes a fraction of one for each operation."""
        given = {} if mask is None else {"mask": mask}

        def run(params: Any, tokens: Any, given: Any) -> Any:
            return self.model.apply({"params": params}, tokens, **given, **more)

        return np.asarray(jax.jit(run)(self.params, jnp.asarray(tokens, jnp.int32), given))

    def logits(self, ids: list[int], quant: bool = True, window: int = 0, prefix: int = 0) -> np.ndarray:
        """(T, out_vocab); `window` newest positions and the first `prefix` are visible, 0 for all."""
        at = np.arange(len(ids))
        mask = at[:, None] >= at
        if window:
            mask &= ((at[:, None] - at) < window) | (at < prefix)
        return self._apply([ids], mask=jnp.asarray(mask)[None, None], quant=quant)[0]

    def cells(self, ids: list[int], quant: bool = True) -> np.ndarray:
        """(T, layers + 1, d_model)."""
        return self._apply([ids], quant=quant, method="hidden_cells")[0]

    def head(self, name: str, ids: list[int], quant: bool = True) -> np.ndarray:
        """A head's output: a unit vector, or the logit of the confidence."""
        return np.asarray(self.heads_of(name, [ids], quant)[0])

    def heads_of(self, name: str, texts: list[list[int]], quant: bool = True) -> np.ndarray:
        """The same for several texts at once; the shorter ones are padded, which the reference leaves out."""
        method = {
            "embedding_head": "forward_embedding", "contrastive_head": "encode_contrastive",
            "confidence_head": "forward_confidence",
        }[name]  # fmt: skip
        most = max(map(len, texts))
        return self._apply([[*ids, *[0] * (most - len(ids))] for ids in texts], quant=quant, method=method)
