"""The exceptions of pulsedb, and which one stands for which status of the store and the language."""

import builtins
import re


class Error(Exception):
    """The base of all errors of a graph.

    `code` is the one by which Neo4j's drivers know the error.
    """

    def __init__(self, message="", code=""):
        super().__init__(message)
        self.message = message
        self.code = code

    def __reduce__(self):
        return (type(self), (self.message, self.code))


class QueryError(Error):
    """The query is wrong, or met a value that it cannot take.

    `line` and `column`, both from 1, say where, and `text` is that line, where the error has a place;
    otherwise they are None. str() shows the line with a caret below the place.
    """

    _PLACE = re.compile(r' \(line (\d+), column (\d+)\)\n"(.*)"\n', re.DOTALL)

    def __init__(self, message="", code=""):
        super().__init__(message, code)
        self.line = self.column = self.text = None
        place = self._PLACE.search(message)
        if place:
            self.line, self.column, self.text = int(place[1]), int(place[2]), place[3]


class SyntaxError(QueryError):  # pylint: disable=redefined-builtin
    """The query cannot be understood, or names a variable that is not there."""


class SemanticError(QueryError):
    """The query is well formed, and asks for what cannot be."""


class ParameterError(QueryError):
    """A parameter of the query has no value."""


class CypherTypeError(QueryError, TypeError):
    """A value of the query has a type that an operation does not take."""


class ArgumentError(QueryError, ValueError):
    """A function or procedure, or a load, got a value that it does not take."""


class CypherArithmeticError(QueryError, ArithmeticError):
    """A division by zero, or an overflow of 64 bits, in the query."""


class UnsupportedError(QueryError, NotImplementedError):
    """The query asks for what this version does not have."""


class ProcedureError(QueryError):
    """There is no such procedure."""


class NotFoundError(Error):
    """There is no such database, node, relationship, index or snapshot."""


class ConstraintError(Error):
    """What was written breaks a constraint; or an index or constraint of the name is there."""


class ReadOnlyError(Error):
    """A statement writes, and the graph or the transaction is open for reading."""


class TransientError(Error):
    """Another transaction changed the same and was first: nothing is kept; run it again."""


class TimeoutError(Error, builtins.TimeoutError):  # pylint: disable=redefined-builtin
    """The statement or transaction has reached its limit of time."""


class CancelledError(Error):
    """The statement was ended by TERMINATE TRANSACTIONS, or since the graph was closed."""


class LimitError(Error, MemoryError):
    """The statement or its result needs more memory than it may have, or a disk is full."""


class LockedError(Error):
    """Another process, or another Graph of this one, has the database open for writing."""


class CorruptionError(Error):
    """The database is damaged; the message names the file."""


class ClosedError(Error):
    """The graph was closed, or is another process's; or the transaction is over."""


class TransactionError(Error):
    """The transaction has failed, and can only be rolled back."""


_KINDS = {
    "SyntaxError": SyntaxError,
    "SemanticError": SemanticError,
    "ParameterMissing": ParameterError,
    "TypeError": CypherTypeError,
    "ArgumentError": ArgumentError,
    "ArithmeticError": CypherArithmeticError,
    "EntityNotFound": NotFoundError,
    "ProcedureError": ProcedureError,
    "ConstraintVerificationFailed": ConstraintError,
    "ConstraintValidationFailed": ConstraintError,
    "ReadOnlyDatabase": ReadOnlyError,
    "Unsupported": UnsupportedError,
    "Closed": ClosedError,
    "Within": Error,  # a call that would wait for the statement that it comes from
    "TransactionFailed": TransactionError,
}

# By the number of absl::StatusCode.
_STATUSES = {
    1: CancelledError,
    3: ArgumentError,
    4: TimeoutError,
    5: NotFoundError,
    6: ConstraintError,
    7: ReadOnlyError,
    8: LimitError,
    10: TransientError,
    11: ArgumentError,
    12: UnsupportedError,
    15: CorruptionError,
}


def make_error(status, kind, code, message):
    """The exception for a status of the native module."""
    if kind == "Store":  # what a file or a directory said, not a statement
        cls = {9: LockedError, 5: NotFoundError, 15: CorruptionError, 8: LimitError}.get(status, Error)
        return cls(message, code)
    if code.endswith(".AccessMode"):
        return ReadOnlyError(message, code)
    cls = _KINDS.get(kind) or _STATUSES.get(status)
    if cls is None:
        cls = ConstraintError if code.endswith(".ConstraintValidationFailed") else Error
    return cls(message, code)
