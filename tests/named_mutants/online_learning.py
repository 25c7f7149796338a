"""Named mutants of the online-learning wing."""

REFUTED: dict[str, list[str]] = {
    "online.weighted-majority token-table": [
        "one_block: predict, learn: +(I, e(J-I) P, Y; S) without weight e(J-I)",
        "one_block: predict, learn: (P to O by +<I, S> +<log d tC, tC>) with +<I, S> negated",
        "one_block: clear: relu(O + -ones tC) to -O: -ones tC dropped",
        "two_layer: carry: +(S, tC, tY; S) without context => label",
        "two_layer: predict, learn: hardmax for softmax",
        "replica: copy expert n: layer dropped",
        "replica: predict, learn: (P to O by +<I, S> +<u_n tC, S> +<-log 2 u_n' I, tC> +<-log 2 tC, tC>) without +<-log 2",
        "softmax_only: predict, pool: (n + 2 S to S, n + 2 A to A by 0) with n + 2 S to S doubled",
        "softmax_only: learn, clear: relu(I(x)U' A) to -I(x)U'' A dropped",
    ],
    "online.weighted-majority one-round": [
        "one_block: layer 1, part 1: P[O.0, P.0] zeroed",
        "one_block: layer 1, part 1: Q[tC.0, tC.0] negated",
        "two_layer: layer 2, part 1: Q[tQ.0, tQ.0] doubled",
        "two_layer: layer 3, part 1: W[unit 3, tQ.0] zeroed",
        "replica: layer 2, part 1: Q[I.1, tC.0] zeroed",
        "softmax_only: layer 2, part 1: V[S.0, unit 7] zeroed",
        "softmax_only: layer 1, part 2: P[A.1, A.1] doubled",
    ],
    "online.weighted-majority bit-patterns": [
        "one_block: predict, learn: +(S, tC, tY; S) negated",
        "one_block: clear: relu(tY) to -tY dropped",
        "two_layer: carry: +(S, tC, tQ; S) dropped",
        "replica: predict, learn: +(I, e(J-I) P, Y; S) negated",
        "softmax_only: learn, clear: relu(Y) to -Y: -Y doubled",
    ],
    "online.weighted-majority runs": [
        "predict, learn: layer dropped",
        "clear: relu(tY) to -tY: -tY doubled",
        "predict, learn: +(I, e(J-I) P, Y; S) negated",
        "copy expert n: +(P, u_n' I, tC; P) negated",
        "predict, pool: (5 S to S, 5 A to A by 0) with 5 S to S negated",
    ],
    "online.weighted-majority inequalities": [
        "contraction 1 - x",
        "contraction 1 - 2x/3",
        "expected loss doubled",
        "half the square",
        "x up to 9/10",
    ],
    "online.weighted-majority bounds": [
        "predict, learn: layer dropped",
        "predict, learn: +(S, tC, tY; S) dropped",
        "predict, learn: +(I, e(J-I) P, Y; S) negated",
        "predict, learn: (P to O by +<I, S> +<log d tC, tC>) with +<I, S> negated",
    ],
    "online.hedge runs": [
        "predict, learn: layer dropped",
        "predict, learn: +(I, e I P, Y; S) negated",
        "predict, learn: +(I, e I P, Y; S) without weight e I",
        "predict, learn: +(S, tC, tY; S) dropped",
        "clear: relu(Y) to -Y dropped",
    ],
    "online.fixed-share runs": [
        "read: +(tC, S, I; g) negated",
        "learn: +(V, -eps(J-I) P, Y; S) without weight -eps(J-I)",
        "learn: +(g, -eps(J-I) P, Y; g) dropped",
        "share: +(S, -a tY, tY; S) negated",
        "share: +(I, a/n g, tY; S) with value V",
        "clear: relu(-I) to I dropped",
    ],
}
"""Per claim: pieces of the texts of mutants (sign, selector, route, loop or round, primitive) that it must refute."""
