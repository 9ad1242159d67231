"""Whether two runs had the same model: the identities that their records and baselines keep."""

from collections.abc import Iterable, Mapping

Identity = Mapping[str, str]  # of `models.identity`; empty where it isn't known


def same_weights(a: Identity, b: Identity) -> bool | None:
    """Whether two models have the same identity: weights and all else that decides their answers.
    None where one isn't known: of a model behind a server, of records from before identities, or
    of a folder beside a commit of the hub.
    """
    if not a.get("digest") or not b.get("digest"):
        return None
    if a["digest"] == b["digest"]:
        return True
    if ("revision" in a) != ("revision" in b):
        return None
    return False


def differing_parts(a: Identity, b: Identity) -> list[str]:
    """What differs between two identities that are known: `weights`, `chat template` …"""
    kinds = dict.fromkeys([*a, *b])
    return [kind for kind in kinds if kind != "digest" and a.get(kind) != b.get(kind)]


def weights_text(pairs: Iterable[tuple[Identity, Identity]]) -> str:
    """`same weights`, or `other weights (weights, chat template)` with what differs in any pair;
    empty where an identity isn't known and none differs.
    """
    parts: dict[str, None] = {}
    verdicts = set()
    for a, b in pairs:
        verdict = same_weights(a, b)
        verdicts.add(verdict)
        if verdict is False:
            parts.update(dict.fromkeys(differing_parts(a, b)))
    if False in verdicts:
        return f"other weights ({', '.join(parts)})"
    return "same weights" if verdicts == {True} else ""
