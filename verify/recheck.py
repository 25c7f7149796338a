"""Check certificate files again, with the standard library only and none of the code that made them.

    verify recheck runs/latest            python verify/recheck.py FILE_OR_FOLDER

A certificate is accepted if its digest fits, its verdict is `proved` and every record holds. Records say what the proof
rests on (`proofs_check/records.py` lists the kinds). Words are rewritten by the hypotheses. Where layers stand behind
them, the hypotheses are evaluated at a rational point, so they are not void, and the built layers are run there, token
by token, from the definition of attention. Programs are run whole, in Q or modulo a prime, beside the iteration that
they must equal. Not repeated: degree bounds are taken as stated, and a certificate without records is counted as such.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

FORMAT = 1
REWRITES, BITS = 20_000, 256
BASES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)

Matrix = list[list[Any]]


class Refused(Exception):
    """A record does not hold; the text says which and where."""


def need(holds: bool, text: str) -> None:
    if not holds:
        raise Refused(text)


# Numbers ----------------------------------------------------------------------------------------------------------


class Residue(int):
    """An element of GF(p); the class has p."""

    p = 0

    def __add__(self, other: int) -> Residue:
        return type(self)((int(self) + int(other)) % self.p)

    def __neg__(self) -> Residue:
        return type(self)(-int(self) % self.p)

    def __mul__(self, other: int) -> Residue:
        return type(self)(int(self) * int(other) % self.p)


class Polynomial(dict[Any, Fraction]):
    """A polynomial over Q: monomials (sorted tuples of indeterminates, repeated) -> coefficients, none of them zero."""

    def __add__(self, other: Polynomial) -> Polynomial:
        return gathered([*self.items(), *other.items()])

    def __neg__(self) -> Polynomial:
        return Polynomial({m: -c for m, c in self.items()})

    def __mul__(self, other: Polynomial) -> Polynomial:
        return gathered((tuple(sorted(m + n)), c * d) for m, c in self.items() for n, d in other.items())


def gathered(items: Iterable[tuple[Any, Fraction]]) -> Polynomial:
    out: dict[Any, Fraction] = {}
    for key, c in items:
        out[key] = out.get(key, Fraction(0)) + c
    return Polynomial({key: c for key, c in out.items() if c})


@dataclass(frozen=True)
class Numbers:
    """How a text becomes a number, and 1/x."""

    read: Callable[[Any], Any]
    inverse: Callable[[Any], Any]

    def matrix(self, rows: Any) -> Matrix:
        need(isinstance(rows, list) and len({len(row) for row in rows}) <= 1, "a matrix without equal rows")
        return [[self.read(x) for x in row] for row in rows]


RATIONAL = Numbers(Fraction, lambda x: 1 / x)
POLYNOMIAL = Numbers(lambda x: gathered([((), Fraction(x))]), lambda x: need(False, "1/x of a polynomial"))


def modulo(p: int) -> Numbers:
    need(p > BASES[-1] and is_prime(p), f"{p} is not a prime")
    field = type("Field", (Residue,), {"p": p})

    def read(x: Any) -> Residue:
        q = Fraction(x)
        return field(q.numerator * pow(q.denominator, -1, p) % p)

    return Numbers(read, lambda x: field(pow(int(x), -1, p)))


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
        found = shape(letters, word) if word else [expected[0]] * 2
        need(found == expected, f"a word {word} of shape {found}, not {expected}")
    return words


def read_rules(letters: Any, items: Any) -> Rules:
    lefts = [next(iter(words_of([[1, left]]))) for left, _ in items]
    need(all(lefts), "a hypothesis without letters on the left")
    return [
        (left, read_sum(letters, right, shape(letters, left))) for left, (_, right) in zip(lefts, items, strict=True)
    ]


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
        need(kind in self.counts, f"an unknown kind {kind}")
        stop = self.counts[kind] if stop is None else stop
        need(0 <= start <= stop <= self.counts[kind], f"a span {span} beyond its {self.counts[kind]} tokens")
        return range(start, stop)

    def keep(self, kind: str, places: list[int]) -> None:
        self.counts[kind] = len(places)
        for key in [key for key in self.fields if key[0] == kind]:
            self.fields[key] = [self.fields[key][i] for i in places]


def run(program: Any, bank: Bank) -> Iterator[str]:
    """Each layer in turn, on the bank itself; yields its label."""
    for layer in program:
        if "repeat" in layer:
            for _ in range(int(layer["repeat"])):
                yield from run(layer["layers"], bank)
            continue
        if "heads" in layer:
            attend(layer["heads"], bank)
        elif "tokenwise" in layer:
            tokenwise(layer, bank)
        elif "release" in layer:
            if layer["gate"] is None:
                bank.counts.pop(layer["release"])
                bank.fields = {key: v for key, v in bank.fields.items() if key[0] != layer["release"]}
            else:
                columns = bank.columns(layer["release"], layer["gate"])
                bank.keep(layer["release"], [i for i, column in enumerate(columns) if column[0]])
        elif "keep" in layer:
            bank.fields = {key: v for key, v in bank.fields.items() if key[1] in layer["keep"]}
        else:
            raise Refused(f"an unknown layer {sorted(layer)}")
        yield layer["label"]


def attend(heads: Any, bank: Bank) -> None:
    """Parallel heads: a target gains sign * sum over its sources of value <W key, query>; all read, then all write."""
    changed: dict[tuple[str, str], list[list[Any]]] = {}
    for head in heads:
        need(head["sign"] in (1, -1), "a sign other than 1 and -1")
        for source, target, relation in head["routes"]:
            sources, targets = bank.span(source), bank.span(target)
            need(relation == "full" or len(sources) == len(targets), f"unequal spans {source} and {target}")
            key, query = (bank.columns(x[0], head[name]) for x, name in ((source, "key"), (target, "query")))
            value = [bank.columns(source[0], head["value"])[j] for j in sources]
            if "mixing" in head:
                mixing = bank.numbers.matrix(head["mixing"][str(len(value))])
                value = flipped(product(flipped(value), mixing, bank.zero))
            if "weight" in head:
                key = flipped(product(bank.numbers.matrix(head["weight"]), flipped(key), bank.zero))
            place = (target[0], head["out"])
            out = changed.setdefault(place, [list(column) for column in bank.columns(*place)])
            for t, i in enumerate(targets):
                for s, j in enumerate(sources):
                    if (relation == "same" and s != t) or (relation == "causal" and s > t):
                        continue
                    score = sum((a * b for a, b in zip(key[j], query[i], strict=True) if a and b), bank.zero)
                    if score:
                        score = score if head["sign"] > 0 else -score
                        out[i] = [x + y * score for x, y in zip(out[i], value[s], strict=True)]
    bank.fields.update(changed)


def tokenwise(layer: Any, bank: Bank) -> None:
    zero, one, inverse = bank.zero, bank.numbers.read(1), bank.numbers.inverse
    known: dict[str, Callable[[Any], Any]] = {
        "recip_0": lambda x: inverse(x) if x else zero,
        "eq0": lambda x: zero if x else one,
        "relu": lambda x: max(x, zero),
    }
    need(layer["tokenwise"] in known, f"an unknown primitive {layer['tokenwise']}")
    need(layer["tokenwise"] != "relu" or isinstance(zero, Fraction), "relu of numbers without an order")
    kind = layer["span"][0]
    columns = [list(column) for column in bank.columns(kind, layer["field"])]
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
    values, one = {}, Fraction(1)
    for name, letter in record["letters"].items():
        rows, columns = map(int, letter["shape"])
        values[name] = [[Polynomial({(f"{name}_{i}_{j}",): one}) for j in range(columns)] for i in range(rows)]
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


# The algorithms ---------------------------------------------------------------------------------------------------


def td(record: Any, bank: Bank) -> Iterator[Matrix]:
    """v_l, columns, by v_{l+1} = r + A v_l: A and r as given, of state tokens, or counted from raw ones."""
    numbers = bank.numbers
    if "task" in record:
        A, r = (numbers.matrix(record["task"][name]) for name in "Ar")
    elif ("state", "y") in bank.fields:
        A, r = bank.columns("state", "y"), bank.columns("state", "r")
    else:
        S, T, R = (bank.rows("raw", field) for field in "xyr")
        scale = [[numbers.inverse(sum(row, bank.zero))] for row in S]
        r = [[x * y] for (x,), (y,) in zip(scale, product(S, flipped(R), bank.zero), strict=True)]
        factors = [x * g for (x,), g in zip(scale, bank.rows("state", "gam")[0], strict=True)]
        counts = product(S, flipped(T), bank.zero)
        A = [[x * y for y in row] for x, row in zip(factors, counts, strict=True)]
    v = [[bank.zero] for _ in r]
    while True:
        yield v
        v = plus(r, product(A, v, bank.zero))


def context(record: Any, bank: Bank) -> Iterator[Matrix]:
    """v_l = B sum_{j<l} H^j g0 with H = I + (Y - B)'B."""
    B, Y, g = (bank.rows("source", field) for field in "xyr")
    change = plus(Y, [[-b for b in row] for row in B])
    move = product(flipped(change), B, bank.zero)
    v, s = [[bank.zero] for _ in B], flipped(g)
    while True:
        yield v
        v, s = plus(v, product(B, s, bank.zero)), plus(s, product(move, s, bank.zero))


ALGORITHMS: dict[str, Callable[[Any, Bank], Iterator[Matrix]]] = {"td": td, "context": context}


def check_run(record: Any, numbers: Numbers = RATIONAL) -> None:
    tokens = record["tokens"]
    blocks = {name: numbers.matrix(rows) for name, rows in tokens["blocks"].items()}
    bank, untouched = (Bank(record["widths"], tokens["counts"], blocks, numbers) for _ in range(2))
    read = record["read"]
    need(read["sign"] in (1, -1), "a sign other than 1 and -1")
    queries = untouched.rows(read["kind"], "x")
    answer = [[bank.zero] * untouched.counts[read["kind"]]]
    for label in run(record["program"], bank):
        if label == read["label"]:
            row = bank.rows(read["kind"], read["field"])[0]
            answer.append(row if read["sign"] > 0 else [-x for x in row])
    need(len(answer) > 1, "nothing is read")
    if "answer" in record:
        need(answer == numbers.matrix(record["answer"]), "the program gives another answer")
    if record["algorithm"]:
        need(record["algorithm"] in ALGORITHMS, f"an unknown algorithm {record['algorithm']}")
        for row, v in zip(answer, ALGORITHMS[record["algorithm"]](record, untouched), strict=False):
            need([row] == product(flipped(v), queries, bank.zero), "the program gives other values than the algorithm")


def check_field(record: Any) -> None:
    p, bits = int(record["prime"]), int(record["prime bits"])
    need(p.bit_length() == bits, f"a prime of another length than {bits} bits")
    need(bool(record["algorithm"]), "no algorithm to compare with")
    degree, size, inverted = (int(record[name]) for name in ("degree", "bits", "inverted degree"))
    need(min(degree, size, inverted) >= 0, "a negative degree bound")
    primes = Fraction(3 * 2 ** (bits - 1), 5 * (bits - 1))
    miss = Fraction(size, bits - 1) / primes + Fraction(degree + inverted, 2 ** (bits - 1))
    need(miss == Fraction(record["miss"]) and miss < 1, "another failure probability")
    check_run(record, modulo(p))


# Ranks and covers -------------------------------------------------------------------------------------------------


def check_rank(record: Any) -> None:
    numbers = modulo(int(record["prime"])) if "prime" in record else RATIONAL
    zero = numbers.read(0)
    M, X = numbers.matrix(record["matrix"]), numbers.matrix(record["combinations"])
    rows, columns, rank = record["rows"], record["columns"], record["rank"]
    need(len(rows) == len(columns) == rank and len(set(rows)) == rank, "a minor of another size than the rank")
    minor = [[M[i][j] for j in columns] for i in rows]
    for k in range(rank):
        pivot = next((i for i in range(k, rank) if minor[i][k]), None)
        need(pivot is not None, "a minor that is zero")
        minor[k], minor[pivot] = minor[pivot], minor[k]  # type: ignore[index]
        inverse = numbers.inverse(minor[k][k])
        for i in range(k + 1, rank):
            factor = minor[i][k] * inverse
            minor[i] = [x + -(factor * y) for x, y in zip(minor[i], minor[k], strict=True)]
    spanned = product(X, [M[i] for i in rows], zero) if rank else [[zero] * len(row) for row in M]
    need(spanned == M, "a row that is not a combination of the minor's")


def check_cover(record: Any) -> None:
    g, m, depth, bound = Fraction(record["g"]), record["m"], record["L"], Fraction(record["e*"])
    need(0 < g < 1 and m >= 0 and bound >= 0, "g, m or e* out of range")

    def mass(start: int, stop: int | None) -> Fraction:
        return (g**start - (0 if stop is None else g**stop)) / (1 - g)

    for name, step in (("cover", 1), ("packing", 0)):
        ends = record[name]
        need(all(isinstance(x, int) for x in ends[:-1]), f"{name}: an infinite end before the last")
        rising = all(x < y for x, y in itertools.pairwise(ends) if y is not None)
        need(rising, f"{name}: ends that do not increase")
        if depth is not None:
            need(not ends or (ends[-1] is not None and ends[-1] <= depth), f"{name}: an end beyond L")
        if name == "cover":
            need(bool(ends) and ends[-1] == depth and len(ends) <= m + 1, "cover: not all of 0..L, or too many blocks")
        elif ends or bound:
            need(len(ends) == m + 1, "packing: not m + 1 intervals")
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


KINDS: dict[str, Callable[[Any], Any]] = {
    "words": check_words,
    "layer": check_layer,
    "polynomials": check_polynomials,
    "run": check_run,
    "schwartz-zippel": check_field,
    "rank": check_rank,
    "cover": check_cover,
    "intervals": check_intervals,
}


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
        where = f"record {i + 1} ({record.get('kind')}, {record.get('part', 'whole')})"
        need(record.get("kind") in KINDS, f"{where}: an unknown kind")
        try:
            KINDS[record["kind"]](record)
        except Refused as error:
            raise Refused(f"{where}: {error}") from None
        except (KeyError, IndexError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            raise Refused(f"{where}: cannot be read: {type(error).__name__}: {error}") from None
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
        except (OSError, ValueError) as error:
            line["refused"] = f"not a certificate: {error}"
        except (Refused, RecursionError) as error:
            line["refused"] = str(error)
        lines.append(line)
    return lines


if __name__ == "__main__":
    for line in recheck(Path(sys.argv[1])):
        print(f"{line['file']}: {line['refused'] or str(line['records']) + ' records hold'}")
