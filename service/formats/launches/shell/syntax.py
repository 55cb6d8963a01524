"""Statements of a shell script, as its grammar has them."""

from collections.abc import Sequence

from service.formats.launches.shell.nodes import (
    ArrayWord,
    Body,
    Case,
    Chain,
    Function,
    If,
    Loop,
    Node,
    Simple,
)
from service.formats.launches.shell.tokens import (
    MAX_DEPTH,
    Operator,
    Piece,
    PieceKind,
    Token,
    Word,
    list_tokens,
)
from service.formats.launches.values.errors import LaunchFormatError

_SEPARATORS = frozenset({"\n", ";", "&", ";;"})
_REDIRECTIONS = frozenset({">", ">>", "&>", "&>>", ">&", "<", "<&", "<<<"})
_JOINTS = frozenset({"&&", "||", "|"})
_ENDS = frozenset({"then", "elif", "else", "fi", "do", "done", "esac", "}"})


def parse_script(name: str, text: str) -> Body:
    """Return the statements of a script.

    Raises LaunchFormatError for what is no shell script.
    """
    parser = _Parser(name, list_tokens(name, text))
    body = parser.read_body(frozenset())
    if parser.index < len(parser.tokens):
        raise parser.refuse("a statement")
    return body


class _Parser:
    """Position among the tokens of a script."""

    def __init__(self, name: str, tokens: Sequence[Token]) -> None:
        """Begin at the first."""
        self.name, self.tokens, self.index, self.depth = name, tokens, 0, 0

    def read_body(self, ends: frozenset[str]) -> Body:
        """Return statements up to one of these words."""
        self._descend()
        nodes: list[Node] = []
        while (token := self._peek()) is not None:
            if isinstance(token, Operator) and token.text in _SEPARATORS:
                if token.text in ends:
                    break
                self.index += 1
            elif self._is_operator(")") or self._get_literal() in ends:
                break
            else:
                nodes.append(self._read_chain())
        self.depth -= 1
        return tuple(nodes)

    def _descend(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.refuse("fewer blocks within blocks")

    def _read_chain(self) -> Node:
        first = self._read_command()
        following: list[tuple[str, Node]] = []
        while isinstance(operator := self._peek(), Operator) and operator.text in _JOINTS:
            self.index += 1
            self._skip_lines()
            following.append((operator.text, self._read_command()))
        return Chain(first=first, following=tuple(following)) if following else first

    def _read_command(self) -> Node:
        while (word := self._get_literal()) in {"!", "time"}:
            self.index += 1
        if word in _ENDS or self._peek() is None:
            raise self.refuse("a command")
        if word in {"if", "case", "{"} or self._is_operator("("):
            return self._read_block(word)
        if word in {"for", "while", "until", "select"}:
            return self._read_loop(word)
        return self._read_function() or self._read_simple()

    def _read_block(self, word: str) -> Node:
        if word == "if":
            return self._read_if()
        if word == "case":
            return self._read_case()
        return self._read_group()

    def _read_function(self) -> Function | None:
        start = self.index
        is_named = self._get_literal() == "function"
        self.index += is_named
        name = self._get_literal()
        self.index += 1
        has_parentheses = self._is_operator("(") and self._is_operator(")", ahead=1)
        self.index += 2 * has_parentheses
        if not name or "=" in name or not (is_named or has_parentheses):
            self.index = start
            return None
        self._skip_lines()
        self._descend()
        body = self._read_command()
        self.depth -= 1
        return Function(name=name, body=(body,))

    def _read_group(self) -> Node:
        """Return the statements in braces, or in parentheses."""
        has_braces = self._get_literal() == "{"
        self.index += 1
        body = self.read_body(frozenset({"}"} if has_braces else ()))
        if has_braces:
            self._expect("}")
        else:
            self._close()
        self._skip_redirections()
        return body

    def _close(self) -> None:
        if not self._is_operator(")"):
            raise self.refuse("a closing parenthesis")
        self.index += 1

    def _read_if(self) -> If:
        branches: list[tuple[Body, Body]] = []
        otherwise: Body = ()
        self.index += 1
        while True:
            condition = self.read_body(frozenset({"then"}))
            self._expect("then")
            body = self.read_body(frozenset({"elif", "else", "fi"}))
            branches.append((condition, body))
            word = self._get_literal()
            self.index += 1
            if word != "elif":
                break
        if word == "else":
            otherwise = self.read_body(frozenset({"fi"}))
            self._expect("fi")
        elif word != "fi":
            raise self.refuse("fi")
        self._skip_redirections()
        return If(branches=tuple(branches), otherwise=otherwise)

    def _read_loop(self, word: str) -> Loop:
        self.index += 1
        name, tokens = "", list[Word]()
        if word in {"for", "select"}:
            name = self._get_literal()
            self.index += bool(name)
            while self._get_literal() != "do" and self._peek() is not None:
                token = self.tokens[self.index]
                if isinstance(token, Word) and token.literal != "in":
                    tokens.append(token)
                self.index += 1
        else:
            self.read_body(frozenset({"do"}))
        self._expect("do")
        body = self.read_body(frozenset({"done"}))
        self._expect("done")
        self._skip_redirections()
        return Loop(name=name, tokens=tuple(tokens), body=body)

    def _read_case(self) -> Case:
        self.index += 1
        subject = self._take_word()
        self._skip_lines()
        self._expect("in")
        branches: list[tuple[tuple[Word, ...], Body]] = []
        self._skip_lines()
        while self._get_literal() != "esac":
            patterns: list[Word] = []
            while not self._is_operator(")"):
                if self._is_operator("(", "|"):
                    self.index += 1
                else:
                    patterns.append(self._take_word())
            self.index += 1
            branches.append((tuple(patterns), self.read_body(frozenset({";;", "esac"}))))
            self._skip_lines(";;")
        self._expect("esac")
        return Case(subject=subject, branches=tuple(branches))

    def _read_simple(self) -> Simple:
        tokens: list[Word | ArrayWord] = []
        target: Word | None = None
        document: Word | None = None
        line = self.tokens[self.index].line
        if self._get_literal() == "[[":
            return Simple(tokens=self._read_test(), line=line)
        while (token := self._peek()) is not None:
            if isinstance(token, Word):
                self.index += 1
                tokens.append(self._read_array(token) or token)
            elif token.text == "<<":
                document, self.index = token.document, self.index + 2
            elif token.text in _REDIRECTIONS:
                file = self._read_redirection()
                target = file if token.text in {">", ">>"} else target
                # The 2 of ``2>`` is no word of the command.
                is_number = token.is_glued and tokens and _is_number(tokens[-1])
                tokens = tokens[:-1] if is_number else tokens
            elif token.text in {"<(", ">("}:
                self._read_group()
            else:
                break
        if self._is_operator("(", "<<-"):
            raise self.refuse("a command")
        return Simple(tokens=tuple(tokens), line=line, target=target, document=document)

    def _read_test(self) -> tuple[Word, ...]:
        """Return the words of ``[[ … ]]``, in which operators are words."""
        tokens: list[Word] = []
        while (token := self._peek()) is not None:
            self.index += 1
            if isinstance(token, Word):
                tokens.append(token)
            elif token.text != "\n":
                piece = Piece(kind=PieceKind.TEXT, text=token.text)
                tokens.append(Word(pieces=(piece,), line=token.line))
            if tokens[-1].literal == "]]":
                return tuple(tokens)
        raise self.refuse("]]")

    def _read_array(self, word: Word) -> ArrayWord | None:
        token = self._peek()
        is_glued = isinstance(token, Operator) and token.text == "(" and token.is_glued
        if not is_glued or not word.literal.endswith("="):
            return None
        self.index += 1
        tokens: list[Word] = []
        while (inner := self._peek()) is not None and not self._is_operator(")"):
            tokens += [inner] if isinstance(inner, Word) else []
            self.index += 1
        self._close()
        name, appends = word.literal[:-1], word.literal.endswith("+=")
        return ArrayWord(name=name.removesuffix("+"), appends=appends, tokens=tuple(tokens))

    def _read_redirection(self) -> Word | None:
        """Return the file of a redirection, None for a command's output."""
        self.index += 1
        if self._is_operator("<(", ">("):
            self._read_group()
            return None
        return self._take_word()

    def _skip_redirections(self) -> None:
        while self._is_operator(*_REDIRECTIONS, "<<"):
            if self._is_operator("<<"):
                self.index += 2
            else:
                self._read_redirection()

    def _skip_lines(self, *ends: str) -> None:
        while self._is_operator("\n", *ends):
            self.index += 1

    def _peek(self, ahead: int = 0) -> Token | None:
        return next(iter(self.tokens[self.index + ahead : self.index + ahead + 1]), None)

    def _get_literal(self) -> str:
        token = self._peek()
        return token.literal if isinstance(token, Word) else ""

    def _is_operator(self, *texts: str, ahead: int = 0) -> bool:
        token = self._peek(ahead)
        return isinstance(token, Operator) and token.text in texts

    def _take_word(self) -> Word:
        token = self._peek()
        if not isinstance(token, Word):
            raise self.refuse("a word")
        self.index += 1
        return token

    def _expect(self, word: str) -> None:
        if self._get_literal() != word:
            raise self.refuse(word)
        self.index += 1

    def refuse(self, expected: str) -> LaunchFormatError:
        """Return the refusal of what stands here."""
        token = self._peek()
        line = (token or self.tokens[-1]).line if self.tokens else 1
        message = f"is no shell script that can be read; expected {expected}"
        return LaunchFormatError(message, where=f"{self.name}:{line}")


def _is_number(word: Word | ArrayWord) -> bool:
    return isinstance(word, Word) and word.literal.isdecimal()
