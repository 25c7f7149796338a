"""Check certificate files again, with the standard library only and none of the code that made them.

    verify recheck runs/latest            python verify/recheck.py FILE_OR_FOLDER

A certificate is accepted if its digest fits, its verdict is `proved` and every record holds. Records say what the proof
rests on (`proofs_check/records.py` lists the kinds). Words are rewritten by the hypotheses. Where layers stand behind
them, the hypotheses are evaluated at a rational point, so they are not void, and the built layers are run there, token
by token, from the definition of attention. Programs are run whole, in Q or modulo a prime, beside the iteration that
they must equal; those of one round with formal logarithms, or on polynomials whose signs decide the branches. Not
repeated: degree bounds are taken as stated, and a certificate without records is counted as such.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

FORMAT, REWRITES, BITS = 1, 20_000, 256
BASES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)

Matrix = list[list[Any]]


class Refused(Exception):
    """A record does not hold; the text says which and where."""


def need(holds: bool, text: str) -> None:
    if not holds:
        raise Refused(text)


# Numbers ----------------------------------------------------------------------------------------------------------


class Polynomial(dict[Any, Fraction]):
    """A polynomial over Q: monomials (sorted tuples of indeterminates, repeated) -> coefficients, none of them zero."""

    def __add__(self, other: Polynomial) -> Polynomial:
        return gathered([*self.items(), *other.items()]) if self and other else self or other

    def __neg__(self) -> Polynomial:
        return Polynomial({m: -c for m, c in self.items()})

    def __mul__(self, other: Polynomial) -> Polynomial:
        return gathered((tuple(sorted(m + n)), c * d) for m, c in self.items() for n, d in other.items())


def gathered(items: Iterable[tuple[Any, Fraction]]) -> Polynomial:
    out: dict[Any, Fraction] = {}
    for key, c in items:
        out[key] = out[key] + c if key in out else c
    return Polynomial({key: c for key, c in out.items() if c})


def indeterminates(name: str, rows: int, columns: int) -> Matrix:
    return [[Polynomial({(f"{name}_{i}_{j}",): Fraction(1)}) for j in range(columns)] for i in range(rows)]


class Numbers(NamedTuple):
    """How a text becomes a number, and 1/x."""

    read: Callable[[Any], Any]
    inverse: Callable[[Any], Any]

    def matrix(self, rows: Any) -> Matrix:
        need(isinstance(rows, list) and len({len(row) for row in rows}) <= 1, "a matrix without equal rows")
        return [[self.read(x) for x in row] for row in rows]


RATIONAL = Numbers(functools.cache(Fraction), lambda x: 1 / x)


def formal(x: Any) -> Polynomial:
    """A number, or terms [coefficient, [indeterminate, ..]]: `log 2` is that, `+x` positive, `0x` not negative."""
    if isinstance(x, Polynomial):
        return x
    terms = x if isinstance(x, list) else [[x, []]]
    need(not any(name.startswith("|") for _, names in terms for name in names), "a name kept for absolute values")
    return gathered((tuple(sorted(names)), RATIONAL.read(c)) for c, names in terms)


POLYNOMIAL = Numbers(formal, lambda x: need(False, "1/x of a polynomial"))


def modulo(p: int) -> Numbers:
    need(p > BASES[-1] and is_prime(p), f"{p} is not a prime")

    class Residue(int):
        """An element of GF(p)."""

        def __add__(self, other: int) -> Residue:
            return Residue((int(self) + int(other)) % p)

        def __neg__(self) -> Residue:
            return Residue(-int(self) % p)

        def __mul__(self, other: int) -> Residue:
            return Residue(int(self) * int(other) % p)

    def read(x: Any) -> Residue:
        q = Fraction(x)
        return Residue(q.numerator * pow(q.denominator, -1, p) % p)

    return Numbers(read, lambda x: Residue(pow(int(x), -1, p)))


def is_prime(n: int) -> bool:
    """Miller and Rabin with fixed bases."""
    twos = ((n - 1) & (1 - n)).bit_length() - 1
    for base in BASES:
        powers = [pow(base, (n - 1) >> (twos - i), n) for i in range(twos + 1)]
        if powers[0] != 1 and n - 1 not in powers[:-1]:
            return False
    return True


def flipped(a: Matrix) -> Matrix:
    return [list(column) for column in zip(*a, strict=True)]


def plus(a: Matrix, b: Matrix) -> Matrix:
    return [[x + y for x, y in zip(u, v, strict=True)] for u, v in zip(a, b, strict=True)]


def product(a: Matrix, b: Matrix, zero: Any) -> Matrix:
    need(not a or len(a[0]) == len(b), f"a product of {len(a[0]) if a else 0} columns and {len(b)} rows")
    columns = range(len(b[0]) if b else 0)
    return [[sum((x * b[k][j] for k, x in enumerate(row) if x), zero) for j in columns] for row in a]


def dot(a: list[Any], b: list[Any], zero: Any) -> Any:
    return sum((x * y for x, y in zip(a, b, strict=True) if x and y), zero)


# Signs and logarithms ---------------------------------------------------------------------------------------------


def sign(x: Any) -> int | None:
    """0, 2 or -2 where x is zero, positive or negative throughout, 1 or -1 where it may vanish too; None if unknown."""
    if not isinstance(x, Polynomial):
        return 2 * ((x > 0) - (x < 0))
    if len({c > 0 for c in x.values()}) > 1 or any(name[0] not in "+0|" for m in x for name in m):
        return None
    size = 1 + any(all(name[0] == "+" for name in m) for m in x)
    return 0 if not x else size if next(iter(x.values())) > 0 else -size


def relu(x: Polynomial) -> Polynomial:
    """(x + |x|)/2 where the sign is unknown, |x| an indeterminate that x, -x and their multiples share."""
    known, lead = sign(x), x[min(x)] if x else Fraction(1)
    if known is None:
        name = "|" + repr(sorted((m, c / lead) for m, c in x.items()))
        return gathered([((name,), abs(lead) / 2), *((m, c / 2) for m, c in x.items())])
    return x if known > 0 else Polynomial()


def exp(x: Polynomial) -> Fraction:
    """Of a sum of integer multiples of logarithms."""
    out = Fraction(1)
    for (name,), c in x.items():
        base = Fraction(name.removeprefix("log ")) if name.startswith("log ") else 0
        need(base > 0 and c.denominator == 1, f"exp of {c} {name}")
        out *= base ** int(c)
    return out


def shares(numbers: list[Fraction]) -> list[Polynomial]:
    return [formal(x / sum(numbers)) for x in numbers]


def largest(scores: list[Polynomial]) -> Polynomial:
    tops = [x for x in scores if all(sign(x + -y) in (0, 1, 2) for y in scores)]
    need(bool(tops), "scores of which none is known to be the largest")
    return tops[0]


def hardmax(scores: list[Polynomial]) -> list[Polynomial]:
    """Uniform on the largest."""
    top = largest(scores)
    gaps = [sign(top + -x) for x in scores]
    need(set(gaps) <= {0, 2}, "scores that may be equal or not")
    return shares([Fraction(gap == 0) for gap in gaps])


def softmax(scores: list[Polynomial]) -> list[Polynomial]:
    return shares([exp(x + -scores[0]) for x in scores])


WEIGHTS: dict[str, Callable[[list[Any]], list[Any]]] = {"linear": list, "softmax": softmax, "hardmax": hardmax}


# Words ------------------------------------------------------------------------------------------------------------

Word = tuple[tuple[str, int], ...]
Rules = list[tuple[Word, Polynomial]]


def words_of(terms: Any) -> Polynomial:
    """A sum of words; each letter is taken as it is (0) or transposed (1)."""
    return gathered((tuple((name, (0, 1).index(t)) for name, t in items), Fraction(c)) for c, items in terms)


def shape(letters: Any, word: Word) -> list[str]:
    """Rows and columns of a word, whose letters must fit together."""
    shapes = [letters[name]["shape"][:: -1 if transposed else 1] for name, transposed in word]
    need(all(a[1] == b[0] for a, b in itertools.pairwise(shapes)), f"letters of {word} that do not fit together")
    return [shapes[0][0], shapes[-1][1]]


def read_sum(letters: Any, terms: Any, expected: list[str]) -> Polynomial:
    """A sum of words, all of the shape expected; the empty word is an identity matrix."""
    words = words_of(terms)
    for word in words:
        need((shape(letters, word) if word else [expected[0]] * 2) == expected, f"{word} is not of shape {expected}")
    return words


def read_rules(letters: Any, items: Any) -> Rules:
    rules = [(next(iter(words_of([[1, left]]))), right) for left, right in items]
    need(all(left for left, _ in rules), "a hypothesis without letters on the left")
    return [(left, read_sum(letters, right, shape(letters, left))) for left, right in rules]


def normal_form(words: Polynomial, rules: Rules) -> Polynomial:
    pending, done, steps = list(words.items()), [], 0
    while pending:
        word, c = pending.pop()
        for start, (left, right) in ((s, rule) for s in range(len(word)) for rule in rules):
            end = start + len(left)
            if word[start:end] == left:
                steps += 1
                need(steps <= REWRITES, "hypotheses that rewrite without end")
                pending += [(word[:start] + middle + word[end:], c * d) for middle, d in right.items()]
                break
        else:
            done.append((word, c))
    return gathered(done)


def evaluate(words: Polynomial, values: dict[str, Matrix], rows: int, columns: int, numbers: Numbers) -> Matrix:
    zero, one = numbers.read(0), numbers.read(1)
    out = [[zero] * columns for _ in range(rows)]
    for word, c in words.items():
        value = [[one if i == j else zero for j in range(rows)] for i in range(rows)]
        for name, transposed in word:
            need(name in values, f"no value of the letter {name}")
            value = product(value, flipped(values[name]) if transposed else values[name], zero)
        need(len(value) == rows and all(len(row) == columns for row in value), "words whose values do not fit a block")
        out = plus(out, [[numbers.read(c) * x for x in row] for row in value])
    return out


def check_words(record: Any) -> Rules:
    """Each identity holds under the hypotheses, which are returned."""
    letters = record["letters"]
    rules = read_rules(letters, record["rules"])
    need(bool(record["identities"]), "no identity")
    for identity in record["identities"]:
        left, right = (read_sum(letters, identity[side], identity["shape"]) for side in ("left", "right"))
        need(not normal_form(left + -right, rules), f"{identity['name']}: both sides differ under the hypotheses")
    return rules


# Programs ---------------------------------------------------------------------------------------------------------


class Bank:
    """Tokens: counts by kind, and the columns of each field of each kind; what is missing is zero."""

    def __init__(self, widths: Any, counts: Any, blocks: dict[str, Matrix], numbers: Numbers) -> None:
        need(all(width >= 1 for width in widths.values()), "a field without coordinates")
        self.widths, self.counts, self.numbers = widths, dict(counts), numbers
        self.zero = numbers.read(0)
        self.fields: dict[tuple[str, str], list[list[Any]]] = {}
        for name, rows in blocks.items():
            kind, field = name.split(".")
            fits = len(rows) == widths[field] and all(len(row) == self.counts[kind] for row in rows)
            need(fits, f"a block {name} of another shape than its field and kind")
            self.fields[kind, field] = flipped(rows)

    def columns(self, kind: str, field: str) -> list[list[Any]]:
        need(kind in self.counts and field in self.widths, f"an unknown block {kind}.{field}")
        return self.fields.get((kind, field)) or [[self.zero] * self.widths[field] for _ in range(self.counts[kind])]

    def rows(self, kind: str, field: str) -> Matrix:
        return flipped(self.columns(kind, field)) or [[] for _ in range(self.widths[field])]

    def span(self, span: Any) -> range:
        kind, start, stop = span
        stop = self.counts[kind] if stop is None else stop
        need(0 <= start <= stop <= self.counts[kind], f"a span {span} beyond its {self.counts[kind]} tokens")
        return range(start, stop)


def run(program: Any, bank: Bank) -> Iterator[str]:
    """Each layer in turn, on the bank itself; yields its label."""
    for layer in program:
        if "repeat" in layer:
            yield from itertools.chain.from_iterable(run(layer["layers"], bank) for _ in range(int(layer["repeat"])))
            continue
        if "heads" in layer:
            add(attend(layer["heads"], bank), bank)
        elif "units" in layer:
            add(rectify(layer["units"], bank), bank)
        elif "tokenwise" in layer:
            tokenwise(layer, bank)
        elif "release" in layer:
            kind, gate = layer["release"], layer["gate"]
            kept = [i for i, column in enumerate(bank.columns(kind, gate)) if column[0]] if gate else []
            bank.counts[kind] = len(kept)
            for key in [key for key in bank.fields if key[0] == kind]:
                bank.fields[key] = [bank.fields[key][i] for i in kept]
            if not gate:
                del bank.counts[kind]
        elif "keep" in layer:
            bank.fields = {key: v for key, v in bank.fields.items() if key[1] in layer["keep"]}
        else:
            raise Refused(f"an unknown layer {sorted(layer)}")
        yield layer["label"]


Delta = tuple[tuple[str, str], int, list[Any]]
"""What a layer adds: the block, the token, the vector."""


def add(deltas: Iterable[Delta], bank: Bank) -> None:
    """All are computed from the bank as it was."""
    changed: dict[tuple[str, str], list[list[Any]]] = {}
    for place, i, vector in deltas:
        columns = changed[place] if place in changed else changed.setdefault(place, list(bank.columns(*place)))
        columns[i] = [x + y for x, y in zip(columns[i], vector, strict=True)]
    bank.fields.update(changed)


def attend(heads: Any, bank: Bank) -> Iterator[Delta]:
    """A target weighs what it sees on all routes by scores, sums of sign <W key, query>, and gains c weight value."""
    matrix, zero = bank.numbers.matrix, bank.zero
    for head in heads:
        terms, moves, weigh = head.get("scores", [head]), head.get("moves", [head]), head.get("weights", "linear")
        fields = [*((x["key"], x.get("weight")) for x in terms), *((x["value"], x.get("map")) for x in moves)]
        maps = [(field, matrix(inner) if inner else None) for field, inner in fields]
        need(all(term["sign"] in (1, -1) for term in terms), "a sign other than 1 and -1")
        need({x["query"] for x in terms} | {x["out"] for x in moves} <= bank.widths.keys(), "an unknown field")
        seen: dict[tuple[str, int], list[Any]] = {}
        for source, target, relation in head["routes"]:
            sources, targets = bank.span(source), bank.span(target)
            need(relation == "full" or len(sources) == len(targets), f"unequal spans {source} and {target}")
            offered = []
            for field, inner in maps:
                part = [row[sources.start : sources.stop] for row in bank.rows(source[0], field)]
                offered.append(product(inner, part, zero) if inner else part)
            if "mixing" in head:
                offered[-1] = product(offered[-1], matrix(head["mixing"][str(len(sources))]), zero)
            tokens = list(zip(*map(flipped, offered), strict=True))
            for (t, i), (s, token) in itertools.product(enumerate(targets), enumerate(tokens)):
                if not ((relation == "same" and s != t) or (relation == "causal" and s > t)):
                    seen.setdefault((target[0], i), []).append(token)
        for (kind, i), tokens in seen.items():
            queries = [[x if term["sign"] > 0 else -x for x in bank.columns(kind, term["query"])[i]] for term in terms]
            scores = [sum((dot(*pair, zero) for pair in zip(token, queries, strict=False)), zero) for token in tokens]
            for weight, token in zip(WEIGHTS[weigh](scores), tokens, strict=True):
                for move, value in zip(moves, token[len(terms) :], strict=True):
                    if weight:
                        yield (kind, move["out"]), i, [x * weight if x else x for x in value]


def rectify(groups: Any, bank: Bank) -> Iterator[Delta]:
    """Groups of hidden units relu(sum of W field) of every token, which write V relu to fields."""
    matrix, zero = bank.numbers.matrix, bank.zero
    for group, kind in itertools.product(groups, bank.counts):
        read = [product(matrix(weight), bank.rows(kind, field), zero) for field, weight in group["reads"]]
        hidden = [[relu(x) for x in row] for row in functools.reduce(plus, read)]
        for field, weight in group["writes"]:
            for i, column in enumerate(flipped(product(matrix(weight), hidden, zero))):
                yield (kind, field), i, column


def tokenwise(layer: Any, bank: Bank) -> None:
    known: dict[str, Callable[[Any], Any]] = {
        "recip_0": lambda x: bank.numbers.inverse(x) if x else x,
        "eq0": lambda x: bank.numbers.read(int(not x)),
        "relu": lambda x: max(x, bank.zero),
    }
    need(layer["tokenwise"] != "relu" or isinstance(bank.zero, Fraction), "relu of numbers without an order")
    kind, columns = layer["span"][0], list(bank.columns(layer["span"][0], layer["field"]))
    for i in bank.span(layer["span"]):
        columns[i] = [known[layer["tokenwise"]](x) for x in columns[i]]
    bank.fields[kind, layer["field"]] = columns


def check_layer(record: Any) -> None:
    """Words as in `check_words`; at the point the hypotheses hold, and the layers give what is said of every block."""
    values = {name: RATIONAL.matrix(rows) for name, rows in record["point"].items()}
    for name, letter in record["letters"].items():
        need(not letter["symmetric"] or values[name] == flipped(values[name]), f"{name} is not symmetric at the point")
    for left, right in check_words(record):
        factors = [flipped(values[name]) if transposed else values[name] for name, transposed in left]
        difference = gathered([(left, Fraction(1))]) + -right
        value = evaluate(difference, values, len(factors[0]), len(factors[-1][0]), RATIONAL)
        need(not any(map(any, value)), f"the point violates the hypothesis on {left}")
    check_blocks(record, values, RATIONAL)


def check_polynomials(record: Any) -> None:
    """The same with matrices of indeterminates for letters: an identity of polynomials, without hypotheses."""
    letters = record["letters"].items()
    values = {name: indeterminates(name, *map(int, letter["shape"])) for name, letter in letters}
    check_blocks(record, values, POLYNOMIAL)


def check_blocks(record: Any, values: dict[str, Matrix], numbers: Numbers) -> None:
    widths, counts = record["widths"], record["counts"]
    every = {f"{kind}.{field}" for kind in counts for field in widths}
    need({x["name"] for x in record["identities"]} == every, "a block of which nothing is said")

    def value(name: str, terms: Any) -> Matrix:
        kind, field = name.split(".")
        return evaluate(words_of(terms), values, widths[field], counts[kind], numbers)

    bank = Bank(widths, counts, {name: value(name, terms) for name, terms in record["before"].items()}, numbers)
    need(sum(1 for _ in run(record["program"], bank)) > 0, "no layer")
    for identity in record["identities"]:
        found, claimed = bank.rows(*identity["name"].split(".")), value(identity["name"], identity["right"])
        need(found == claimed, f"{identity['name']}: the built layers differ from it")


# Runs -------------------------------------------------------------------------------------------------------------


def task(record: Any, bank: Bank) -> tuple[Matrix, Matrix]:
    """A and r as given, of state tokens, or counted from raw ones; zero for a state that was not visited."""
    numbers = bank.numbers
    if "task" in record:
        return numbers.matrix(record["task"]["A"]), numbers.matrix(record["task"]["r"])
    if ("state", "y") in bank.fields:
        return bank.columns("state", "y"), bank.columns("state", "r")
    S, T, R = (bank.rows("raw", field) for field in "xyr")
    scale = [numbers.inverse(visits) if visits else visits for visits in (sum(row, bank.zero) for row in S)]
    r = [[x * y] for x, (y,) in zip(scale, product(S, flipped(R), bank.zero), strict=True)]
    factors = [x * g for x, g in zip(scale, bank.rows("state", "gam")[0], strict=True)]
    counts = product(S, flipped(T), bank.zero)
    return [[x * y for y in row] for x, row in zip(factors, counts, strict=True)], r


def td(record: Any, bank: Bank) -> Iterator[Matrix]:
    """v_l, columns, by v_{l+1} = r + A v_l."""
    A, r = task(record, bank)
    v = [[bank.zero] for _ in r]
    while True:
        yield v
        v = plus(r, product(A, v, bank.zero))


def check_run(record: Any, numbers: Numbers | None = None) -> Bank:
    """The program gives the answer, which is the algorithm's, and leaves what the facts say."""
    numbers = numbers or (POLYNOMIAL if "generic" in record else RATIONAL)
    tokens, read, algorithm = record["tokens"], record["read"], record["algorithm"]
    blocks = {name: numbers.matrix(rows) for name, rows in tokens["blocks"].items()}
    bank, untouched = (Bank(record["widths"], tokens["counts"], blocks, numbers) for _ in range(2))
    need(not read or read["sign"] in (1, -1), "a sign other than 1 and -1")
    need(algorithm in ("", "td"), f"an unknown algorithm {algorithm}")
    answer = [[bank.zero] * untouched.counts[read["kind"]]] if read else []
    for label in run(record["program"], bank):
        if read and f"{label} ".startswith(f"{read['label']} "):
            row = bank.rows(read["kind"], read["field"])[0]
            answer.append(row if read["sign"] > 0 else [-x for x in row])
    need(len(answer) > 1 or "after" in record, "nothing is read")
    if "answer" in record:
        need(answer == numbers.matrix(record["answer"]), "the program gives another answer")
    if algorithm and read:
        queries = untouched.rows(read["kind"], "x")
        for row, v in zip(answer, td(record, untouched), strict=False):
            need([row] == product(flipped(v), queries, bank.zero), "the program gives other values than the algorithm")
    if "facts" in record:
        named = {f"{kind}.{field}": untouched.rows(kind, field) for kind in untouched.counts for field in bank.widths}
        named |= zip("Ar", task(record, untouched), strict=True) if record["counted"] else {}
        check_facts(record, numbers, named | {"answer": answer}, bank)
    return bank


def check_field(record: Any) -> None:
    p, bits = int(record["prime"]), int(record["prime bits"])
    need(p.bit_length() == bits, f"a prime of another length than {bits} bits")
    need(bool(record["algorithm"] or record.get("facts")), "nothing to compare with")
    degree, size, inverted = (int(record[name]) for name in ("degree", "bits", "inverted degree"))
    need(min(degree, size, inverted) >= 0, "a negative degree bound")
    primes = Fraction(3 * 2 ** (bits - 1), 5 * (bits - 1))
    miss = Fraction(size, bits - 1) / primes + Fraction(degree + inverted, 2 ** (bits - 1))
    need(miss == Fraction(record["miss"]) and miss < 1, "another failure probability")
    check_run(record, modulo(p))


# Rounds and chambers ----------------------------------------------------------------------------------------------


def check_rounds(record: Any) -> None:
    """Each round is fed with the last hidden vectors of the one before, plus an embedding; of each the facts hold."""
    source, target, flag, embedding = record["feedback"]
    fed: dict[str, Matrix] = {}
    need(bool(record["rounds"]), "no round")
    for blocks in record["rounds"]:
        bank = check_run({**record, "tokens": {"counts": record["counts"], "blocks": blocks | fed}}, POLYNOMIAL)
        fed = {f"{target}.{field}": bank.rows(source, field) for field in record["widths"]}
        fed[f"{target}.{flag}"] = plus(fed[f"{target}.{flag}"], POLYNOMIAL.matrix(embedding))


def check_chambers(record: Any) -> None:
    """A round of Q-learning at the places named (s, a, s'), in every order of the values of s'.

    They are y - B less gaps, fine: the same for equal values; else only told from the largest. All other values are
    free, and r is told by its error delta = (q - p)/2, so that D = alpha (p + q)/2 is any number >= |alpha delta|.
    """
    U, V = (POLYNOMIAL.matrix(record["values"][name]) for name in "UV")
    n, A = len(U[0]), len(V[0])
    ranks = {tuple(sum(x > y for x in set(v)) for y in v) for v in itertools.product(range(A), repeat=A)}
    orders = sorted(ranks if record["fine"] else {tuple(map(bool, rank)) for rank in ranks})
    need(all(min(s, a, later + 1) >= 0 for s, a, later in record["places"]) and record["places"] != [], "no place")
    places = [(*place, order) for place in record["places"] for order in (orders if place[2] >= 0 else orders[:1])]
    for s, a, later, order in places:
        Q = [[formal([[1, [f"Q {i} {b}"]]]) for b in range(A)] for i in range(n)]
        best = formal([[int(later >= 0), ["+y"]], [-int(later >= 0), ["+B"]]])
        if later >= 0:
            below = [[k if record["fine"] else f"{b} alone" for k in range(rank)] for b, rank in enumerate(order)]
            Q[later] = [best + formal([[-1, [f"+h {k}"]] for k in gaps]) for gaps in below]
        reward = formal([["1/2", ["0q"]], ["-1/2", ["0p"]]]) + -(formal([[1, ["+g"]]]) * best) + Q[s][a]
        told = {"context.row": product(U, Q, Polynomial()), "reward.rew": [[reward]]}
        told |= {"state.cur": [[row[s]] for row in U], "action.act": [[row[a]] for row in V]}
        told |= {"next.nxt": [[row[later] if later >= 0 else Polynomial()] for row in U]}
        check_run({**record, "tokens": {**record["tokens"], "blocks": record["tokens"]["blocks"] | told}}, POLYNOMIAL)


# Ranks and covers -------------------------------------------------------------------------------------------------


def check_rank(record: Any) -> None:
    numbers = modulo(int(record["prime"])) if "prime" in record else RATIONAL
    M, X, inverse = (numbers.matrix(record[name]) for name in ("matrix", "combinations", "inverse"))
    rows, columns, rank = record["rows"], record["columns"], record["rank"]
    need(len(rows) == len(columns) == rank, "a minor of another size than the rank")
    minor = product([[M[i][j] for j in columns] for i in rows], inverse, numbers.read(0))
    need(minor == value_of(["unit", rank], {}, numbers), "a minor with another inverse")
    spanned = product(X, [M[i] for i in rows], numbers.read(0)) if rank else [[numbers.read(0)] * len(row) for row in M]
    need(spanned == M, "a row that is not a combination of the minor's")


def check_cover(record: Any) -> None:
    g, m, depth, bound = Fraction(record["g"]), record["m"], record["L"], Fraction(record["e*"])
    need(0 < g < 1 and m >= 0 and bound >= 0, "g, m or e* out of range")

    def mass(start: int, stop: int | None) -> Fraction:
        return (g**start - (0 if stop is None else g**stop)) / (1 - g)

    for name, step in (("cover", 1), ("packing", 0)):
        ends = record[name]
        need(all(isinstance(x, int) for x in ends[:-1]), f"{name}: an infinite end before the last")
        need(all(y is None or x < y for x, y in itertools.pairwise(ends)), f"{name}: ends that do not increase")
        need(depth is None or not ends or (ends[-1] is not None and ends[-1] <= depth), f"{name}: an end beyond L")
        if name == "cover":
            need(bool(ends) and ends[-1] == depth and len(ends) <= m + 1, "cover: not all of 0..L, or too many blocks")
        need(name == "cover" or not (ends or bound) or len(ends) == m + 1, "packing: not m + 1 intervals")
        start = 0
        for s, end in enumerate(ends):
            size, allowed = mass(start, end), bound * (2 if s else 1)
            need(size <= allowed if step else size >= allowed, f"{name}: block {s} has mass {size}")
            start = 0 if end is None else end + step


def power(x: Fraction, n: int, up: bool) -> Fraction:
    """x^n for 0 <= x <= 1, rounded up or down to BITS bits after the point at each product."""
    scale, sign = 1 << BITS, -1 if up else 1
    base, out = sign * (sign * x.numerator * scale // x.denominator), scale
    while n:
        if n & 1:
            out = sign * (sign * out * base // scale)
        base, n = sign * (sign * base * base // scale), n >> 1
    return Fraction(out, scale)


def check_intervals(record: Any) -> None:
    """Cells of g that tile (0, to], each with one cover for all m > q: blocks of mass <= 2c g^q from depth 0 on.

    A run [d, count] is count blocks of d + 1 depths, an infinite block follows. With k = start - q the mass relative to
    g^q is g^k (1 + .. + g^(d-1)), at most its value with g^k at one end of the cell and the sum at the upper end.
    """
    double, end = 2 * Fraction(record["constant"]), Fraction(0)
    for low, high, q, runs in ((Fraction(a), Fraction(b), q, runs) for a, b, q, runs in record["cells"]):
        need(low == end < high < 1 and q >= 0, f"cells that do not tile at {low}")
        need(not q or power(low, q, up=False) * double >= 1, f"q = {q} is too large at {low}")
        need(all(d >= 0 and count > 0 for d, count in runs), f"an odd run at {low}")
        need(sum(count for _, count in runs) <= q, f"more than {q} finite blocks at {low}")
        start = 0
        for d, count in [*runs, (None, 0)]:
            k = start - q
            factor = power(high, k, up=True) if k >= 0 else 1 / power(low, -k, up=False)
            series = (1 if d is None else 1 - power(high, d, up=False)) / (1 - high)
            need(factor * series <= double, f"a block from depth {start} is too heavy at {low}")
            start += count * ((d or 0) + 1)
        end = high
    need(end >= Fraction(record["to"]), f"no cell beyond {end}")


# Facts ------------------------------------------------------------------------------------------------------------

OPERATIONS: dict[str, Callable[..., Matrix]] = {
    "'": flipped,
    "+": plus,
    "-": lambda a, b: plus(a, [[-x for x in row] for row in b]),
    "o": lambda a, b: [[x * y for x, y in zip(u, v, strict=True)] for u, v in zip(a, b, strict=True)],
    "rows": lambda a, b: flipped([[*u, *v] for u, v in zip(flipped(a), flipped(b), strict=True)]),
    "part": lambda a, top, bottom, left, right: [row[left:right] for row in a[top:bottom]],
    "max": lambda a: [[largest([x for (x,) in a])]],
    "hardmax": lambda a: [[x] for x in hardmax([x for (x,) in a])],
    "softmax": lambda a: [[x] for x in shares([exp(x) for (x,) in a])],
}
RELATIONS = {"!=": (2, -2), "<": (2,), "<=": (0, 1, 2)}


def value_of(tree: Any, named: dict[str, Matrix], numbers: Numbers) -> Matrix:
    """The matrix that a tree stands for: a name, or an operation and what it is applied to; one entry scales."""
    if isinstance(tree, str):
        return named[tree]
    operation, *rest = tree
    if operation == "unit":
        return [[numbers.read(int(i == j)) for j in range(*rest)] for i in range(*rest)]
    if operation == "fill":
        return [[numbers.read(rest[0])] * rest[2] for _ in range(rest[1])]
    parts: list[Any] = [x if isinstance(x, int) and x >= 0 else value_of(x, named, numbers) for x in rest]
    if operation != "*":
        return OPERATIONS[operation](*parts)
    a, b = parts
    single = len(a) == len(a[0]) == 1
    return [[a[0][0] * x for x in row] for row in b] if single else product(a, b, numbers.read(0))


def check_facts(record: Any, numbers: Numbers = RATIONAL, named: Any = (), bank: Bank | None = None) -> None:
    """Relations that hold entry by entry; and what is left of every block, zero where nothing is said of it."""
    generic = record.get("generic", {})
    numbers = POLYNOMIAL if generic else numbers
    named = {name: numbers.matrix(rows) for name, rows in record["values"].items()} | dict(named)
    named |= {name: indeterminates(name, *sizes) for name, sizes in generic.items()}
    if bank and "after" in record:
        kinds = record.get("kinds", bank.counts)
        every = {f"{k}.{f}": ["fill", 0, bank.widths[f], bank.counts[k]] for k in kinds for f in bank.widths}
        for name, tree in (every | record["after"]).items():
            need(bank.rows(*name.split(".")) == value_of(tree, named, numbers), f"the program leaves another {name}")
    need(bool(record["facts"] or record.get("after")), "no fact")
    for fact in record["facts"]:
        left, right = (value_of(fact[side], named, numbers) for side in ("left", "right"))
        pairs = [pair for u, v in zip(left, right, strict=True) for pair in zip(u, v, strict=True)]
        relation = fact["relation"]
        need("<" not in relation or numbers in (RATIONAL, POLYNOMIAL), "an order of numbers that have none")
        holds = [x == y if relation == "=" else sign(y + -x) in RELATIONS[relation] for x, y in pairs]
        need(bool(holds) and all(holds), f"{fact['name']}: not so")


KINDS: dict[str, Callable[[Any], Any]] = {"words": check_words, "layer": check_layer, "polynomials": check_polynomials}
KINDS |= {"run": check_run, "rounds": check_rounds, "chambers": check_chambers, "schwartz-zippel": check_field}
KINDS |= {"rank": check_rank, "cover": check_cover, "intervals": check_intervals, "facts": check_facts}


# Files ------------------------------------------------------------------------------------------------------------


def digest(document: Any) -> str:
    """SHA-256 of the document without its digest, keys in order."""
    kept = {key: value for key, value in document.items() if key != "digest"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def check_document(document: Any) -> int:
    """The number of records, all of which hold.

    Raises:
        Refused: the document is damaged, of another version, not a proof, or a record does not hold.
    """
    need(isinstance(document, dict) and "format" in document, "not a certificate")
    need(document["format"] == FORMAT, f"format {document['format']}, where {FORMAT} is known")
    need(document.get("digest") == digest(document), "the digest does not fit: edited or damaged")
    need(document.get("verdict") == "proved", f"the verdict is {document.get('verdict')}")
    records = document.get("records", [])
    for i, record in enumerate(records):
        try:
            need(record.get("kind") in KINDS, "an unknown kind")
            KINDS[record["kind"]](record)
        except (Refused, KeyError, IndexError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            unread = "" if isinstance(error, Refused) else f"cannot be read: {type(error).__name__}: "
            where = f"record {i + 1} ({record.get('kind')}, {record.get('part', 'whole')})"
            raise Refused(f"{where}: {unread}{error}") from None
    return len(records)


def recheck(path: Path) -> list[dict[str, Any]]:
    """One line a certificate file: theorem, claim, records, and why it was refused if it was.

    Raises:
        FileNotFoundError: no certificate there.
    """
    folder = path / "certificates" if (path / "certificates").is_dir() else path
    files = sorted(folder.glob("*.json")) if folder.is_dir() else [folder]
    if not files or not files[0].is_file():
        raise FileNotFoundError(path)
    lines = []
    for file in files:
        line: dict[str, Any] = {"file": file.name, "theorem": "", "claim": "", "records": 0, "refused": None}
        try:
            document = json.loads(file.read_text(encoding="utf-8"))
            if isinstance(document, dict):
                line |= {key: str(document.get(key, "")) for key in ("theorem", "claim")}
            line["records"] = check_document(document)
        except (OSError, ValueError, RecursionError, Refused) as error:
            line["refused"] = str(error) if isinstance(error, Refused) else f"not a certificate: {error}"
        lines.append(line)
    return lines


if __name__ == "__main__":
    for line in recheck(Path(sys.argv[1])):
        print(f"{line['file']}: {line['refused'] or str(line['records']) + ' records hold'}")
