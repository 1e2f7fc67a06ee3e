"""Tokens to a tree: recursive descent in steps, with the words of the ANTLR parser where something is wrong.

The grammar is that of the CEL specification. Like cel-go's parser it refuses what is nested more than 250 deep. After a
syntax error it goes on as far as the next token tells how.
"""

from __future__ import annotations

from collections import Counter

from moorage.cel import tokens as tk
from moorage.cel.errors import Problems
from moorage.cel.macros import Macros
from moorage.cel.steps import Step, done, run
from moorage.cel.syntax import Broken, Call, Ident, ListNode, Literal, MapEntry, MapNode, Node, Select, StructNode
from moorage.cel.values import Uint, go_float

MOST_DEEP = 250
MOST_CHARACTERS = 100_000
_START = ("[", "{", "(", ".", "-", "!", "true", "false", "null", tk.NUM_FLOAT, tk.NUM_INT, tk.NUM_UINT, tk.STRING)
_STARTS = (*_START, tk.BYTES, tk.IDENTIFIER)
_RELATIONS = {"<": "_<_", "<=": "_<=_", ">=": "_>=_", ">": "_>_", "==": "_==_", "!=": "_!=_", "in": "@in"}
_SUMS = {"+": "_+_", "-": "_-_"}
_PRODUCTS = {"*": "_*_", "/": "_/_", "%": "_%_"}
_CONSTANTS = {"true": True, "false": False, "null": None}
_KINDS = frozenset({tk.NUM_FLOAT, tk.NUM_INT, tk.NUM_UINT, tk.STRING, tk.BYTES, tk.IDENTIFIER, tk.END})
_WORDS = "as|break|const|continue|else|false|for|function|if|import|in|let|loop|package|namespace|null|return|true|var"
RESERVED = frozenset(f"{_WORDS}|void|while".split("|"))


class _GivenUpError(Exception):
    """Nothing sensible can be read any more; what is wrong has been reported."""


def parse(text: str, problems: Problems, macros: Macros) -> Node:
    """The tree of an expression; what is wrong with it is in `problems`."""
    if len(text) > MOST_CHARACTERS:
        problems.add(-1, f"expression code point size exceeds limit: size: {len(text)}, limit {MOST_CHARACTERS}")
        return Broken(-1)
    parser = _Parser(tk.tokens_of(text, problems), problems, macros)
    try:
        return run(parser.start())
    except _GivenUpError:
        return Broken(0)


def _named(kind: str) -> str:
    return kind if kind in _KINDS else f"'{kind}'"


def _expecting(kinds: tuple[str, ...]) -> str:
    return _named(kinds[0]) if len(kinds) == 1 else "{" + ", ".join(map(_named, kinds)) + "}"


class _Parser:
    def __init__(self, tokens: list[tk.Token], problems: Problems, macros: Macros) -> None:
        self._tokens = tokens
        self._index = 0
        self._problems = problems
        self._macros = macros
        self._depths: Counter[str] = Counter()
        self._nesting = 0

    # --- tokens ---

    @property
    def _token(self) -> tk.Token:
        return self._tokens[self._index]

    def _next_kind(self) -> str:
        return self._tokens[min(self._index + 1, len(self._tokens) - 1)].kind

    def _take(self) -> tk.Token:
        token = self._token
        if token.kind != tk.END:
            self._index += 1
        return token

    def _taken(self, kind: str) -> tk.Token | None:
        return self._take() if self._token.kind == kind else None

    def _wrong(self, message: str) -> None:
        self._problems.add(self._token.at, f"Syntax error: {message}")

    def _expect(self, kinds: tuple[str, ...], follow: tuple[str, ...] = ()) -> None:
        """Be at one of these tokens; one that is too many is passed over, one that is missing may be thought of."""
        token = self._token
        if token.kind in kinds:
            return
        if self._next_kind() in kinds and token.kind != tk.END:
            self._wrong(f"extraneous input '{token.text}' expecting {_expecting(kinds)}")
            self._index += 1
            return
        if token.kind in follow:
            self._wrong(f"missing {_named(kinds[0])} at '{token.text}'")
            return
        self._wrong(f"mismatched input '{token.text}' expecting {_expecting(kinds)}")
        raise _GivenUpError

    def _close(self, kind: str) -> None:
        follow = (tk.END, ")", "]", "}", ",", ":", "?", ".", "[", "&&", "||", *_RELATIONS, *_SUMS, *_PRODUCTS)
        self._expect((kind,), follow)
        self._taken(kind)

    def _close_after_elements(self, kind: str) -> None:
        self._expect((kind,) if self._taken(",") else (kind, ","))
        self._taken(kind)

    def _enter(self, rule: str) -> None:
        self._depths[rule] += 1
        if self._depths[rule] > MOST_DEEP:
            self._refuse(f"expression recursion limit exceeded: {MOST_DEEP}")

    def _refuse(self, message: str) -> None:
        self._problems.add(-1, message)
        raise _GivenUpError

    # --- the grammar ---

    def start(self) -> Step[Node]:
        """The whole expression."""
        tree: Node = yield self._expression()
        token = self._token
        if token.kind != tk.END:
            word = "extraneous" if self._next_kind() == tk.END else "mismatched"
            self._wrong(f"{word} input '{token.text}' expecting <EOF>")
        if not self._problems.count and height(tree) > MOST_DEEP:
            self._refuse("max recursion depth exceeded")
        return tree

    def _expression(self) -> Step[Node]:
        self._enter("expr")
        tree: Node = yield self._disjunction()
        token = self._taken("?")
        if token:
            first: Node = yield self._disjunction()
            if self._token.kind != ":":
                self._expect((":",))
            self._taken(":")
            second: Node = yield self._expression()
            tree = Call(token.at, "_?_:_", None, (tree, first, second))
        self._depths["expr"] -= 1
        return tree

    def _disjunction(self) -> Step[Node]:
        terms: list[Node] = [(yield self._conjunction())]
        at = self._token.at
        while self._taken("||"):
            terms.append((yield self._conjunction()))
        return terms[0] if len(terms) == 1 else Call(at, "_||_", None, tuple(terms))

    def _conjunction(self) -> Step[Node]:
        terms: list[Node] = [(yield self._relation())]
        at = self._token.at
        while self._taken("&&"):
            terms.append((yield self._relation()))
        return terms[0] if len(terms) == 1 else Call(at, "_&&_", None, tuple(terms))

    def _relation(self) -> Step[Node]:
        tree: Node = yield self._sum()
        while self._token.kind in _RELATIONS:
            token = self._take()
            right: Node = yield self._sum()
            tree = Call(token.at, _RELATIONS[token.kind], None, (tree, right))
        return tree

    def _sum(self) -> Step[Node]:
        tree: Node = yield self._product()
        while self._token.kind in _SUMS:
            token = self._take()
            right: Node = yield self._product()
            tree = Call(token.at, _SUMS[token.kind], None, (tree, right))
        return tree

    def _product(self) -> Step[Node]:
        tree: Node = yield self._unary()
        while self._token.kind in _PRODUCTS:
            token = self._take()
            right: Node = yield self._unary()
            tree = Call(token.at, _PRODUCTS[token.kind], None, (tree, right))
        return tree

    def _unary(self) -> Step[Node]:
        self._expect(_STARTS)
        first = self._token
        if first.kind not in ("!", "-") or (first.kind == "-" and self._next_kind() in (tk.NUM_INT, tk.NUM_FLOAT)):
            plain: Node = yield self._member()
            return plain
        count = 0
        while self._token.kind == first.kind and not (count and first.kind == "!" and self._signed_number()):
            self._take()
            count += 1
        if first.kind == "!" and self._token.kind == tk.END:
            self._wrong(f"extraneous input '<EOF>' expecting {_expecting(_STARTS)}")
            raise _GivenUpError
        operand: Node = yield self._member()
        if count % 2 == 0:
            return operand
        return Call(first.at, "!_" if first.kind == "!" else "-_", None, (operand,))

    def _signed_number(self) -> bool:
        return self._token.kind == "-" and self._next_kind() in (tk.NUM_INT, tk.NUM_FLOAT)

    def _member(self) -> Step[Node]:
        self._expect(_STARTS)
        if self._token.kind in ("-", "!") and not self._signed_number():
            self._wrong(f"no viable alternative at input '{self._token.text}{self._tokens[self._index + 1].text}'")
            raise _GivenUpError
        tree: Node = yield self._primary()
        while self._token.kind in (".", "["):
            step = self._index_of(tree) if self._token.kind == "[" else self._field_of(tree)
            tree = yield step
        return tree

    def _index_of(self, tree: Node) -> Step[Node]:
        token = self._take()
        self._expect((*_STARTS[:6], "?", *_STARTS[6:]))
        optional = self._taken("?")
        index: Node = yield self._expression()
        self._close("]")
        return Call(token.at, "_[?_]" if optional else "_[_]", None, (tree, index))

    def _field_of(self, tree: Node) -> Step[Node]:
        token = self._take()
        optional = self._taken("?")
        name = self._token
        if name.kind not in (tk.IDENTIFIER, tk.ESC_IDENTIFIER):
            rest = "" if name.kind == tk.END else name.text
            self._wrong(f"no viable alternative at input '.{'?' if optional else ''}{rest}'")
            raise _GivenUpError
        self._take()
        if optional:
            field = Literal(name.at, _plain(name))
            return Call(token.at, "_?._", None, (tree, field))
        opened = self._taken("(") if name.kind == tk.IDENTIFIER else None
        if opened is None:
            return Select(token.at, tree, _plain(name))
        args: tuple[Node, ...] = yield self._arguments()
        return self._macros.expanded(opened.at, name.text, tree, args, self._problems)

    def _arguments(self) -> Step[tuple[Node, ...]]:
        self._expect((*_STARTS[:3], ")", *_STARTS[3:]))
        args: list[Node] = []
        if self._token.kind != ")":
            args.append((yield self._expression()))
            while self._taken(","):
                args.append((yield self._expression()))
        self._close(")")
        return tuple(args)

    def _primary(self) -> Step[Node]:
        token = self._token
        if token.kind in (".", tk.IDENTIFIER):
            return self._name()
        if token.kind == "(":
            return self._nested()
        if token.kind == "[":
            return self._list()
        return self._map() if token.kind == "{" else done(self._literal())

    def _nested(self) -> Step[Node]:
        self._take()
        tree: Node = yield self._expression()
        self._close(")")
        return tree

    def _name(self) -> Step[Node]:
        start = self._token
        dot = "." if self._taken(".") else ""
        self._expect((tk.IDENTIFIER,))
        struct = self._struct_end()
        if struct:
            return self._struct(dot, struct)
        name = self._take()
        opened = self._taken("(")
        if name.text in RESERVED:
            self._problems.add(start.at, f"reserved identifier: {name.text}")
        if opened is None:
            return Broken(start.at) if name.text in RESERVED else Ident(name.at, dot + name.text)
        args: tuple[Node, ...] = yield self._arguments()
        if name.text in RESERVED:
            return Broken(start.at)
        return self._macros.expanded(opened.at, dot + name.text, None, args, self._problems)

    def _struct_end(self) -> int:
        """The index of the brace, if names with dots between them and a brace follow."""
        index = self._index
        while self._tokens[index].kind == tk.IDENTIFIER:
            index += 1
            if self._tokens[index].kind == "{":
                return index
            if self._tokens[index].kind != ".":
                return 0
            index += 1
        return 0

    def _struct(self, dot: str, brace: int) -> Node:
        """Messages are not declared anywhere, so that their fields do not matter."""
        name = dot + "".join(each.text for each in self._tokens[self._index : brace])
        at, depth = self._tokens[brace].at, 0
        self._index = brace
        while self._token.kind != tk.END:
            depth += {"{": 1, "}": -1}.get(self._take().kind, 0)
            if depth == 0:
                break
        return StructNode(at, name)

    def _list(self) -> Step[Node]:
        at = self._take().at
        elements: list[Node] = []
        optional: set[int] = set()
        if self._token.kind not in ("]", ","):
            while True:
                if self._taken("?"):
                    optional.add(len(elements))
                elements.append((yield self._expression()))
                if self._token.kind != "," or self._next_kind() in ("]", ","):
                    break
                self._take()
        self._close_after_elements("]")
        return ListNode(at, tuple(elements), frozenset(optional))

    def _map(self) -> Step[Node]:
        at = self._take().at
        entries: list[MapEntry] = []
        if self._token.kind not in ("}", ","):
            while True:
                entries.append((yield self._entry()))
                if self._token.kind != "," or self._next_kind() in ("}", ","):
                    break
                self._take()
        self._close_after_elements("}")
        return MapNode(at, tuple(entries))

    def _entry(self) -> Step[MapEntry]:
        optional = self._taken("?") is not None
        key: Node = yield self._expression()
        at = self._token.at
        self._expect((":",))
        self._taken(":")
        value: Node = yield self._expression()
        return MapEntry(at, key, value, optional)

    # --- literals ---

    def _literal(self) -> Node:
        start = self._token
        sign = "-" if self._taken("-") else ""
        token = self._take()
        if token.kind in _CONSTANTS:
            return Literal(start.at, _CONSTANTS[token.kind])
        read = {tk.NUM_INT: _int, tk.NUM_UINT: _uint, tk.NUM_FLOAT: go_float}
        if token.kind in read:
            number = read[token.kind](sign + token.text)
            if number is None:
                word = {tk.NUM_INT: "int", tk.NUM_UINT: "uint", tk.NUM_FLOAT: "double"}[token.kind]
                return self._bad(start, f"invalid {word} literal")
            return Literal(start.at, number)
        value = tk.text_of(token.text) if token.kind == tk.STRING else tk.bytes_of(token.text[1:])
        return self._bad(start, "unable to unescape string") if value is None else Literal(start.at, value)

    def _bad(self, token: tk.Token, message: str) -> Node:
        self._problems.add(token.at, message)
        return Broken(token.at)


def _plain(name: tk.Token) -> str:
    return name.text[1:-1] if name.kind == tk.ESC_IDENTIFIER else name.text


def _int(text: str) -> int | None:
    if len(text) > 70:
        return None
    number = int(text.replace("0x", ""), 16) if "0x" in text else int(text)
    return number if -(2**63) <= number < 2**63 else None


def _uint(text: str) -> Uint | None:
    if len(text) > 70:
        return None
    number = int(text[2:-1], 16) if text.startswith("0x") else int(text[:-1])
    return Uint(number) if number < 2**64 else None


_COUNTED = frozenset({*_RELATIONS.values(), *_SUMS.values(), *_PRODUCTS.values(), "_?_:_", "_[_]", "_[?_]", "_?._"})


def height(tree: Node) -> int:
    """How deep operators, selections and calls of methods are nested."""
    return run(_height(tree, {}))


def _height(node: Node, known: dict[int, int]) -> Step[int]:
    found = known.get(id(node))
    if found is not None:
        return found
    deepest = 0
    for child in children(node):
        below: int = yield _height(child, known)
        deepest = max(deepest, below)
    counted = isinstance(node, Select) or (
        isinstance(node, Call) and (node.target is not None or node.function in _COUNTED)
    )
    known[id(node)] = deepest + counted
    return deepest + counted


def children(node: Node) -> tuple[Node, ...]:
    """The nodes right below a node."""
    if isinstance(node, Select):
        return (node.operand,)
    if isinstance(node, Call):
        return node.args if node.target is None else (node.target, *node.args)
    if isinstance(node, ListNode):
        return node.elements
    if isinstance(node, MapNode):
        return tuple(part for entry in node.entries for part in (entry.key, entry.value))
    if isinstance(node, Literal | Ident | StructNode | Broken):
        return ()
    return (node.range, node.init, node.condition, node.step, node.result)
