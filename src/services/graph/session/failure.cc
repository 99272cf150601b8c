#include "services/graph/session/failure.h"

#include <cerrno>

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "base/errors.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

struct Row {
  std::string_view kind;  // of ErrorInfo
  std::string_view code;
};
constexpr Row kKinds[] = {
    {"SyntaxError", "Neo.ClientError.Statement.SyntaxError"},
    {"SemanticError", "Neo.ClientError.Statement.SemanticError"},
    {"ParameterMissing", "Neo.ClientError.Statement.ParameterMissing"},
    {"TypeError", "Neo.ClientError.Statement.TypeError"},
    {"ArgumentError", "Neo.ClientError.Statement.ArgumentError"},
    {"ArithmeticError", "Neo.ClientError.Statement.ArithmeticError"},
    {"EntityNotFound", "Neo.ClientError.Statement.EntityNotFound"},
    {"ProcedureError", "Neo.ClientError.Procedure.ProcedureNotFound"},
    {"ConstraintVerificationFailed", "Neo.ClientError.Schema.ConstraintValidationFailed"},
    {"ConstraintValidationFailed", "Neo.ClientError.Schema.ConstraintValidationFailed"},
    {"ConstraintNotFound", "Neo.ClientError.Schema.ConstraintNotFound"},
    {"ForbiddenOnConstraintIndex", "Neo.ClientError.Schema.ForbiddenOnConstraintIndex"},
    {"ExternalResourceFailed", "Neo.ClientError.Statement.ExternalResourceFailed"},
    {"InvalidBookmark", "Neo.ClientError.Transaction.InvalidBookmark"},
    {"DatabaseNotFound", "Neo.ClientError.Database.DatabaseNotFound"},
    {"ReadOnlyDatabase", "Neo.ClientError.General.ForbiddenOnReadOnlyDatabase"},
    {"TransactionStartFailed", "Neo.DatabaseError.Transaction.TransactionStartFailed"},
    {"Within", "Neo.ClientError.Transaction.TransactionAccessedConcurrently"},
    {"ConstraintAlreadyExists", "Neo.ClientError.Schema.ConstraintAlreadyExists"},
    {"ConstraintWithNameAlreadyExists", "Neo.ClientError.Schema.ConstraintWithNameAlreadyExists"},
    {"IndexAlreadyExists", "Neo.ClientError.Schema.IndexAlreadyExists"},
    {"IndexWithNameAlreadyExists", "Neo.ClientError.Schema.IndexWithNameAlreadyExists"},
    {"Unsupported", "Neo.ClientError.Statement.UnsupportedOperationError"},
};

std::string_view CodeOfSchema(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kAlreadyExists:
      return "Neo.ClientError.Schema.EquivalentSchemaRuleAlreadyExists";
    case absl::StatusCode::kNotFound:
      return "Neo.ClientError.Schema.IndexNotFound";
    case absl::StatusCode::kFailedPrecondition:
      return "Neo.DatabaseError.Schema.ConstraintCreationFailed";
    default:
      return {};
  }
}

std::string_view CodeOfStatus(absl::StatusCode code) {
  switch (code) {
    // Drivers run transaction functions again after these of TransientError.
    case absl::StatusCode::kAborted:
      return "Neo.TransientError.Transaction.Outdated";
    case absl::StatusCode::kUnavailable:
      return "Neo.TransientError.General.DatabaseUnavailable";
    case absl::StatusCode::kAlreadyExists:
      return "Neo.ClientError.Schema.ConstraintValidationFailed";
    case absl::StatusCode::kFailedPrecondition:
      return "Neo.ClientError.Transaction.TransactionStartFailed";
    case absl::StatusCode::kPermissionDenied:
      return "Neo.ClientError.Security.Forbidden";
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kOutOfRange:
      return "Neo.ClientError.Statement.ArgumentError";
    case absl::StatusCode::kDeadlineExceeded:
      return "Neo.ClientError.Transaction.TransactionTimedOut";
    case absl::StatusCode::kCancelled:
      return "Neo.ClientError.Transaction.Terminated";
    // Not a TransientError: what is too large stays so.
    case absl::StatusCode::kResourceExhausted:
      return "Neo.ClientError.General.TransactionOutOfMemoryError";
    default:
      return "Neo.DatabaseError.General.UnknownError";
  }
}

std::string_view CodeOf(const absl::Status& status, Doing doing) {
  if (doing == Doing::kProtocol) return "Neo.ClientError.Request.Invalid";
  if (doing == Doing::kAuthentication) {
    return absl::IsResourceExhausted(status) ? "Neo.ClientError.Security.AuthenticationRateLimit"
                                             : "Neo.ClientError.Security.Unauthorized";
  }
  const ErrorInfo info = InfoOf(status);
  if (info.detail == "ReadOnly") return "Neo.ClientError.Statement.AccessMode";
  if (info.detail == "SchemaAndData") {
    return "Neo.ClientError.Transaction.ForbiddenDueToTransactionType";
  }
  // Before the kinds: also of a file that is exported. Not a TransientError, as nothing but more
  // space helps; a DatabaseError, as the statement is sound.
  if (IsDiskFull(status)) return "Neo.DatabaseError.General.OutOfDiskSpace";
  // Others have the memory, and give it back.
  if (info.detail == "PoolExceeded") return "Neo.TransientError.General.MemoryPoolOutOfMemoryError";
  for (const Row& row : kKinds) {
    if (info.kind == row.kind) return row.code;
  }
  if (doing == Doing::kSchema) {
    if (const std::string_view code = CodeOfSchema(status.code()); !code.empty()) return code;
  }
  // Who has it open for writing closes it.
  if (doing == Doing::kStore && absl::IsFailedPrecondition(status)) {
    return "Neo.TransientError.General.DatabaseUnavailable";
  }
  // A constraint that is broken is found when a value is written, or when all are committed.
  if (status.code() == absl::StatusCode::kFailedPrecondition && info.kind.empty()) {
    return "Neo.ClientError.Schema.ConstraintValidationFailed";
  }
  return CodeOfStatus(status.code());
}

}  // namespace

Failure FailureOf(const absl::Status& status, Doing doing) {
  Failure failure;
  failure.code = CodeOf(status, doing);
  failure.message = std::string(status.message());
  failure.gql_status = "50N42";
  failure.gql_description =
      "error: general processing exception - unexpected error. See the message.";
  const auto is = [&](std::string_view part) {
    return failure.code.find(part) != std::string_view::npos;
  };
  const std::string detail = InfoOf(status).detail;
  if (is("ArithmeticError") && detail == "DivisionByZero") {
    failure.gql_status = "22012";
    failure.gql_description = "error: data exception - division by zero. See the message.";
  } else if (is("ArithmeticError") && detail == "IntegerOverflow") {
    failure.gql_status = "22003";
    failure.gql_description =
        "error: data exception - numeric value out of range. See the message.";
  } else if (is("ProcedureNotFound") && detail == "ProcedureNotFound") {
    failure.gql_status = "42N08";
    failure.gql_description =
        "error: syntax error or access rule violation - no such procedure. See the message.";
  } else if (is("SyntaxError")) {
    failure.gql_status = "42001";
    failure.gql_description =
        "error: syntax error or access rule violation - invalid syntax. See the message.";
  } else if (is("Security")) {
    failure.gql_status = "42NFF";
    failure.gql_description =
        "error: syntax error or access rule violation - permission/access denied. See the message.";
  } else if (is("TransientError.Transaction")) {
    failure.gql_status = "40000";
    failure.gql_description = "error: transaction rollback. See the message.";
  } else if (is("ConstraintValidationFailed")) {
    failure.gql_status = "22N77";
    failure.gql_description = "error: data exception - constraint violated. See the message.";
  } else if (is("Statement.")) {
    failure.gql_status = "22000";
    failure.gql_description = "error: data exception. See the message.";
  } else if (is("Request.Invalid")) {
    failure.gql_status = "08N06";
    failure.gql_description =
        "error: connection exception - protocol error. General network protocol error.";
  }
  return failure;
}

bool IsDiskFull(const absl::Status& status) {
  if (!absl::IsResourceExhausted(status)) return false;
  if (InfoOf(status).detail == kDiskFull) return true;
  const int error = ErrnoOf(status);  // of the store's files
  return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

absl::Status OfKind(const absl::Status& status, std::string_view kind) {
  absl::Status of(status.code(), status.message());
  RuntimeError(kind, kind, "")
      .ForEachPayload(
          [&of](absl::string_view type, const absl::Cord& info) { of.SetPayload(type, info); });
  return of;
}

}  // namespace pulse::cypher
