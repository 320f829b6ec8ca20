"""The places of a file where a random mutant can change the code, in the order of the source."""

import ast
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

# How an operator is found between its operands, and what takes its place.
_SWAPPED: Final[dict[type[ast.AST], tuple[str, str]]] = {
    ast.Eq: (r"==", "!="),
    ast.NotEq: (r"!=", "=="),
    ast.Lt: (r"<", "<="),
    ast.LtE: (r"<=", "<"),
    ast.Gt: (r">", ">="),
    ast.GtE: (r">=", ">"),
    ast.Is: (r"\bis\b", "is not"),
    ast.IsNot: (r"\bis\s+not\b", "is"),
    ast.In: (r"\bin\b", "not in"),
    ast.NotIn: (r"\bnot\s+in\b", "in"),
    ast.And: (r"\band\b", "or"),
    ast.Or: (r"\bor\b", "and"),
    ast.Add: (r"\+", "-"),
    ast.Sub: (r"-", "+"),
}
# Keywords that only protect against mistakes while programming, or shape a `repr`.
_CONVENIENCES: Final = frozenset({"frozen", "kw_only", "slots", "repr", "order", "eq"})
_CACHES: Final = frozenset({"cache", "lru_cache"})


@dataclass(frozen=True)
class Site:
    """One change of one place: `old` between the offsets becomes `new`."""

    file: str
    start: int
    end: int
    line: int
    operator: str
    old: str
    new: str
    # The lines of its statement, without those of a body: whoever runs one runs the place.
    lines: range
    at_import: bool  # runs when the module is imported, or once per process

    def apply(self, source: str) -> str:
        return source[: self.start] + self.new + source[self.end :]


def find_sites(file: str, source: str) -> list[Site]:
    finder = _Finder(file, source)
    finder.visit(ast.parse(source))
    return sorted(finder.sites, key=lambda site: (site.start, site.end, site.operator, site.new))


class _Finder(ast.NodeVisitor):
    def __init__(self, file: str, source: str) -> None:
        self.file = file
        self.source = source
        self.sites: list[Site] = []
        self._statement: ast.stmt | None = None
        self._functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = []

    # Offsets

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        for line in self.source.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        return starts

    @cached_property
    def _lines(self) -> list[str]:
        return self.source.splitlines(keepends=True)

    def _offset(self, line: int, column: int) -> int:
        # The syntax tree counts columns in bytes.
        return self._line_starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self._offset(node.lineno, node.col_offset)

    def _end(self, node: ast.expr | ast.stmt) -> int:
        return self._offset(node.end_lineno or node.lineno, node.end_col_offset or 0)

    # Sites

    def _add(self, start: int, end: int, operator: str, new: str) -> None:
        statement = self._statement
        if statement is None:
            raise LookupError(f"{self.file}: a site outside of any statement")
        self.sites.append(
            Site(
                file=self.file,
                start=start,
                end=end,
                line=self.source.count("\n", 0, start) + 1,
                operator=operator,
                old=self.source[start:end],
                new=new,
                lines=_own_lines(statement),
                at_import=not self._functions or any(map(_is_cached, self._functions)),
            )
        )

    def _replace(self, node: ast.expr | ast.stmt, operator: str, new: str) -> None:
        self._add(self._start(node), self._end(node), operator, new)

    def _swap(self, left: ast.expr, symbol: ast.AST, right: ast.expr, operator: str) -> None:
        if type(symbol) not in _SWAPPED:
            return
        pattern, new = _SWAPPED[type(symbol)]
        start, end = self._end(left), self._start(right)
        # A comment between the operands might contain the same text.
        if "#" in self.source[start:end]:
            return
        found = re.search(pattern, self.source[start:end])
        if found:
            self._add(start + found.start(), start + found.end(), operator, new)

    def _force(self, test: ast.expr, *values: str) -> None:
        # Without its assignment, a name would be missing, which every test notices.
        if any(isinstance(node, ast.NamedExpr) for node in ast.walk(test)):
            return
        if not isinstance(test, ast.Constant):
            for value in values:
                self._replace(test, "condition", value)

    # Statements

    def visit(self, node: ast.AST) -> None:
        if not isinstance(node, ast.stmt):
            super().visit(node)
            return
        outer, self._statement = self._statement, node
        super().visit(node)
        self._statement = outer

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        # Decorators and defaults run where the function is defined.
        for part in (*node.decorator_list, node.args):
            self.visit(part)
        if node.returns:
            self._visit_annotation(node.returns)
        self._functions.append(node)
        for statement in node.body:
            self.visit(statement)
        self._functions.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_function(node)

    def visit_If(self, node: ast.If) -> None:
        if _names(node.test) & {"TYPE_CHECKING", "__name__"}:
            return
        self._force(node.test, "True", "False")
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        # A loop that never ends only costs its timeout.
        self._force(node.test, "False")
        self.generic_visit(node)

    def visit_match_case(self, node: ast.match_case) -> None:
        if node.guard:
            self._force(node.guard, "True", "False")
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        value = node.value
        if value is None:
            return
        if not isinstance(value, ast.Constant):
            returns = self._functions[-1].returns
            if isinstance(returns, ast.Name) and returns.id == "bool":
                text = self.source[self._start(value) : self._end(value)]
                self._replace(value, "returned value", f"not ({text})")
            else:
                self._replace(value, "returned value", "None")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        call = node.value
        if isinstance(call, ast.Call):
            if _is_skipped_call(call):
                return
            self._replace(node, "dropped call", "pass")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        # What is inside is the message's text.
        self._replace(node, "dropped raise", "pass")

    def visit_Assign(self, node: ast.Assign) -> None:
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets):
            return
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._visit_annotation(node.annotation)
        if node.value:
            self.visit(node.value)

    # Expressions

    def visit_arg(self, node: ast.arg) -> None:
        if node.annotation:
            self._visit_annotation(node.annotation)

    def _visit_annotation(self, node: ast.expr) -> None:
        # Of a type, only what pydantic reads matters at run time: `Annotated[int, Field(ge=1)]`.
        for part in ast.walk(node):
            if isinstance(part, ast.Call):
                self.visit(part)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = (node.left, *node.comparators)
        for left, symbol, right in zip(operands, node.ops, operands[1:], strict=False):
            self._swap(left, symbol, right, "comparison")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._swap(left, node.op, right, "boolean operator")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if not _is_text(node.left) and not _is_text(node.right):
            self._swap(node.left, node.op, node.right, "arithmetic")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            start = self._start(node)
            found = re.compile(r"not\s*").match(self.source, start)
            if found:
                self._add(start, found.end(), "dropped not", "")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._force(node.test, "True", "False")
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._force(test, "True", "False")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        # `zip(…, strict=True)` protects against mistakes while programming, as well.
        if isinstance(node.func, ast.Name) and node.func.id == "zip":
            for part in node.args:
                self.visit(part)
        else:
            self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg not in _CONVENIENCES or not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace(node, "boolean", str(not node.value))
        elif isinstance(node.value, int | float):
            self._replace(node, "number", str(node.value + 1))

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if "Literal" not in _names(node.value):
            self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Skip f-strings: Python 3.11 does not record where their parts are."""


def _own_lines(statement: ast.stmt) -> range:
    body = getattr(statement, "body", None) or getattr(statement, "cases", None)
    if not body:
        return range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    first = body[0].pattern if isinstance(body[0], ast.match_case) else body[0]
    return range(statement.lineno, max(first.lineno, statement.lineno + 1))


def _names(node: ast.AST) -> set[str]:
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return names | {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}


def _is_cached(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(_names(decorator) & _CACHES for decorator in function.decorator_list)


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    is_constant = isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    return is_constant or isinstance(node, ast.JoinedStr | ast.List | ast.Tuple)


def _is_skipped_call(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Name):
        return call.func.id == "assert_never"
    return isinstance(call.func, ast.Attribute) and call.func.attr == "debug"
