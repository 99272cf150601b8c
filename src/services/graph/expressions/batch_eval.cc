#include "services/graph/expressions/batch_eval.h"

#include <algorithm>
#include <numeric>

#include "services/graph/expressions/rows.h"
#include "services/graph/functions/functions.h"
#include "services/graph/model/text.h"
#include "services/graph/syntax/regex_cache.h"

namespace pulse::cypher {
namespace {

template <typename Number>
int8_t Holds(Op op, Number a, Number b) {
  switch (op) {
    case Op::kEq:
      return a == b ? 1 : 0;
    case Op::kNe:
      return a != b ? 1 : 0;
    case Op::kLt:
      return a < b ? 1 : 0;
    case Op::kLe:
      return a <= b ? 1 : 0;
    case Op::kGt:
      return a > b ? 1 : 0;
    default:
      return a >= b ? 1 : 0;
  }
}

int8_t TruthOf(const Value& v) {
  return static_cast<int8_t>(v.is_null() ? -1 : v.as_bool() ? 1 : 0);
}

}  // namespace

int8_t CompareValues(Op op, const Value& a, const Value& b) {
  // The most frequent ones; all others, and null, go the general way.
  if (a.type() == b.type()) {
    if (a.is_int()) return Holds(op, a.as_int(), b.as_int());
    if (a.type() == Type::kLocalDateTime) {
      return Holds(op, std::pair(a.as_local_seconds(), a.as_offset_or_nanos()),
                   std::pair(b.as_local_seconds(), b.as_offset_or_nanos()));
    }
  }
  return TruthOf(Comparison(op, a, b));
}

namespace {

// a op b for columns of numbers of one kind; constants have one entry. False: they are not.
struct Numbers {
  const int64_t* ints = nullptr;
  const double* floats = nullptr;
  const uint8_t* valid = nullptr;
  size_t step = 1;  // 0 for constants
  int64_t int_value = 0;
  double float_value = 0;
  uint8_t one = 1;

  explicit Numbers(const Operand& o) {
    if (!o.constant) {
      if (o.column.kind == Column::Kind::kInts) ints = o.column.ints.data();
      if (o.column.kind == Column::Kind::kFloats) floats = o.column.floats.data();
      valid = o.column.valid.data();
      return;
    }
    step = 0;
    valid = &one;
    if (o.value.is_int()) {
      int_value = o.value.as_int();
      ints = &int_value;
    } else if (o.value.is_float()) {
      float_value = o.value.as_float();
      floats = &float_value;
    }
  }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;
  bool any() const { return ints != nullptr || floats != nullptr; }
  bool ok(size_t i) const { return valid[i * step] != 0; }
  int64_t Int(size_t i) const { return ints[i * step]; }
  double Float(size_t i) const {
    return floats != nullptr ? floats[i * step] : static_cast<double>(ints[i * step]);
  }
};

bool CompareNumbers(Op op, const Operand& left, const Operand& right, std::vector<int8_t>* out) {
  const Numbers a(left), b(right);
  const bool ints = a.ints != nullptr && b.ints != nullptr;
  const bool floats = a.floats != nullptr && b.floats != nullptr;
  // An integer beside a float is compared exactly, which is not for here.
  if (!ints && !floats) return false;
  for (size_t i = 0; i < out->size(); ++i) {
    (*out)[i] = !a.ok(i) || !b.ok(i) ? int8_t{-1}
                : ints               ? Holds(op, a.Int(i), b.Int(i))
                                     : Holds(op, a.Float(i), b.Float(i));
  }
  return true;
}

bool ComputeInts(Op op, const Numbers& a, const Numbers& b, size_t count, Column* out) {
  out->kind = Column::Kind::kInts;
  out->ints.assign(count, 0);
  out->valid.assign(count, 0);
  for (size_t i = 0; i < count; ++i) {
    if (!a.ok(i) || !b.ok(i)) continue;
    const int64_t x = a.Int(i), y = b.Int(i);
    const bool over = op == Op::kAdd   ? __builtin_add_overflow(x, y, &out->ints[i])
                      : op == Op::kSub ? __builtin_sub_overflow(x, y, &out->ints[i])
                                       : __builtin_mul_overflow(x, y, &out->ints[i]);
    if (over) return false;
    out->valid[i] = 1;
  }
  return true;
}

void ComputeFloats(Op op, const Numbers& a, const Numbers& b, size_t count, Column* out) {
  out->kind = Column::Kind::kFloats;
  out->floats.assign(count, 0);
  out->valid.assign(count, 0);
  for (size_t i = 0; i < count; ++i) {
    if (!a.ok(i) || !b.ok(i)) continue;
    const double x = a.Float(i), y = b.Float(i);
    out->floats[i] = op == Op::kAdd   ? x + y
                     : op == Op::kSub ? x - y
                     : op == Op::kMul ? x * y
                                      : x / y;
    out->valid[i] = 1;
  }
}

}  // namespace

Value ValueAt(const Column& column, size_t i) {
  switch (column.kind) {
    case Column::Kind::kInts:
      return column.valid[i] != 0 ? Value::Int(column.ints[i]) : Value();
    case Column::Kind::kFloats:
      return column.valid[i] != 0 ? Value::Float(column.floats[i]) : Value();
    default:
      return column.values[i];
  }
}

bool Operand::SameAsBefore(size_t i) const {
  if (constant) return true;
  switch (column.kind) {
    case Column::Kind::kInts:
      return column.ints[i] == column.ints[i - 1] && column.valid[i] == column.valid[i - 1];
    case Column::Kind::kFloats:
      return column.floats[i] == column.floats[i - 1] && column.valid[i] == column.valid[i - 1];
    default:
      break;
  }
  const Value &a = column.values[i], &b = column.values[i - 1];
  if (a.type() != b.type()) return false;
  if (a.is_string()) return &a.as_string() == &b.as_string();
  if (a.is_node()) return a.as_node() == b.as_node();
  return a.is_int() && a.as_int() == b.as_int();
}

std::span<const uint32_t> BatchEval::All(size_t count) {
  if (all_.size() < count) {
    all_.resize(count);
    std::iota(all_.begin(), all_.end(), 0);
  }
  return {all_.data(), count};
}

bool BatchEval::Evaluate(const Expr& e, const BatchInput& in, std::span<const uint32_t> rows,
                         Operand* out) {
  if (ctx_.failed()) return false;
  switch (e.kind) {
    case Expr::Kind::kLiteral:
      out->SetConstant(e.value);
      return true;
    case Expr::Kind::kParameter:
      out->SetConstant(Eval(e, nullptr, ctx_));
      return !ctx_.failed();
    case Expr::Kind::kProperty:
      return Property(e, in, rows, out);
    case Expr::Kind::kCase:
      return e.flag ? RowByRow(e, in, rows, out) : Case(e, in, rows, out);
    case Expr::Kind::kCall:
      return Call(e, in, rows, out);
    case Expr::Kind::kBinary:
      if (e.op >= Op::kAdd && e.op <= Op::kPow) return Compute(e, in, rows, out);
      if (e.op == Op::kConcat) return RowByRow(e, in, rows, out);
      break;
    case Expr::Kind::kUnary:
      if (e.op == Op::kNot || e.op == Op::kIsNull || e.op == Op::kIsNotNull) break;
      return RowByRow(e, in, rows, out);
    case Expr::Kind::kChain:
    case Expr::Kind::kHasLabels:
      break;
    default:
      return RowByRow(e, in, rows, out);
  }
  std::vector<int8_t> truths;
  if (!Truths(e, in, rows, &truths)) return false;
  std::vector<Value>* values = BeginValues(rows.size(), out);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (truths[i] >= 0) (*values)[i] = Value::Bool(truths[i] != 0);
  }
  return true;
}

namespace {

// A variable that is an integer, or a float, or null, in all rows. False: it is not.
bool NumbersOf(Slot slot, const BatchInput& in, std::span<const uint32_t> rows, Operand* out) {
  if (in.rows == nullptr || rows.empty()) return false;
  const Type type = in.rows->Row(rows[0])[slot].type();
  if (type != Type::kInt && type != Type::kFloat) return false;
  out->constant = false;
  Column& column = out->column;
  column.kind = type == Type::kInt ? Column::Kind::kInts : Column::Kind::kFloats;
  column.valid.assign(rows.size(), 1);
  const auto fill = [&](auto* numbers, const auto& number) {
    numbers->resize(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      const Value& v = in.rows->Row(rows[i])[slot];
      if (v.type() == type) {
        (*numbers)[i] = number(v);
        continue;
      }
      if (!v.is_null()) return false;
      (*numbers)[i] = 0;
      column.valid[i] = 0;
    }
    return true;
  };
  return type == Type::kInt ? fill(&column.ints, [](const Value& v) { return v.as_int(); })
                            : fill(&column.floats, [](const Value& v) { return v.as_float(); });
}

}  // namespace

bool BatchEval::RowByRow(const Expr& e, const BatchInput& in, std::span<const uint32_t> rows,
                         Operand* out) {
  const bool variable = e.kind == Expr::Kind::kVariable && e.slot >= 0;
  if (variable && NumbersOf(e.slot, in, rows, out)) return true;
  std::vector<Value>* values = BeginValues(rows.size(), out);
  if (variable) {
    for (size_t i = 0; i < rows.size(); ++i) (*values)[i] = in.rows->Row(rows[i])[e.slot];
    return true;
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    (*values)[i] = Eval(e, in.rows->Row(rows[i]), ctx_);
    if (ctx_.failed()) return false;
  }
  return true;
}

// Rows that an expansion made of one node stand behind each other: each run is read once.
bool BatchEval::ReadNodes(Token key, const BatchInput& in, Slot slot,
                          std::span<const uint32_t> rows, Column* out) {
  nodes_.clear();
  runs_.clear();
  nodes_.reserve(rows.size());
  runs_.reserve(rows.size());
  for (const uint32_t row : rows) {
    const NodeId node = in.rows == nullptr ? in.nodes[row] : in.rows->Row(row)[slot].as_node();
    if (nodes_.empty() || nodes_.back() != node) nodes_.push_back(node);
    runs_.push_back(static_cast<uint32_t>(nodes_.size() - 1));
  }
  if (nodes_.size() == rows.size()) {
    return ctx_.Check(ctx_.graph->ReadNodeProperty(key, nodes_, out));
  }
  Column read;
  if (!ctx_.Check(ctx_.graph->ReadNodeProperty(key, nodes_, &read))) return false;
  out->kind = read.kind;
  const auto spread = [&](const auto& from, auto* to) {
    to->clear();
    to->reserve(runs_.size());
    for (const uint32_t run : runs_) to->push_back(from[run]);
  };
  switch (read.kind) {
    case Column::Kind::kInts:
      spread(read.ints, &out->ints);
      spread(read.valid, &out->valid);
      break;
    case Column::Kind::kFloats:
      spread(read.floats, &out->floats);
      spread(read.valid, &out->valid);
      break;
    default:
      spread(read.values, &out->values);
  }
  return true;
}

bool BatchEval::Property(const Expr& e, const BatchInput& in, std::span<const uint32_t> rows,
                         Operand* out) {
  const Expr& base = *e.kids[0];
  if (base.kind != Expr::Kind::kVariable || base.slot < 0) {
    Operand bases;
    if (!Evaluate(base, in, rows, &bases)) return false;
    std::vector<Value>* values = BeginValues(rows.size(), out);
    for (size_t i = 0; i < rows.size(); ++i) {
      const Value of = bases.At(i);
      const bool stored = of.is_node() || of.is_edge();
      (*values)[i] = PropertyOf(of, e.name, stored ? ctx_.Key(e.slot2) : kNoToken, ctx_);
    }
    return !ctx_.failed();
  }
  const auto all = [&](Type type) {
    return std::all_of(rows.begin(), rows.end(),
                       [&](uint32_t row) { return in.rows->Row(row)[base.slot].type() == type; });
  };
  const bool whole = ctx_.deleted_nodes.empty() && ctx_.deleted_edges.empty();
  const bool nodes = in.rows == nullptr ? !in.nodes.empty() : whole && all(Type::kNode);
  const bool edges = in.rows == nullptr ? !in.edges.empty() : whole && !nodes && all(Type::kEdge);
  if (!nodes && !edges) return RowByRow(e, in, rows, out);
  const Token key = ctx_.Key(e.slot2);
  if (key == kNoToken) {
    out->SetConstant(Value());
    return true;
  }
  out->constant = false;
  if (nodes) return ReadNodes(key, in, base.slot, rows, &out->column);
  edges_.clear();
  for (const uint32_t row : rows) {
    edges_.push_back(in.rows == nullptr ? in.edges[row] : in.rows->Row(row)[base.slot].as_edge());
  }
  return ctx_.Check(ctx_.graph->ReadEdgeProperty(key, edges_, &out->column));
}

bool BatchEval::Compute(const Expr& e, const BatchInput& in, std::span<const uint32_t> rows,
                        Operand* out) {
  Operand left, right;
  if (!Evaluate(*e.kids[0], in, rows, &left) || !Evaluate(*e.kids[1], in, rows, &right)) {
    return false;
  }
  if (left.constant && right.constant) {
    out->SetConstant(rows.empty() ? Value() : Arithmetic(e.op, left.value, right.value, ctx_));
    return !ctx_.failed();
  }
  const Numbers a(left), b(right);
  if (a.any() && b.any() && e.op >= Op::kAdd && e.op <= Op::kDiv) {
    out->constant = false;
    const bool ints = a.ints != nullptr && b.ints != nullptr;
    if (!ints) {
      ComputeFloats(e.op, a, b, rows.size(), &out->column);
      return true;
    }
    if (e.op != Op::kDiv && ComputeInts(e.op, a, b, rows.size(), &out->column)) return true;
  }
  std::vector<Value>* values = BeginValues(rows.size(), out);
  for (size_t i = 0; i < rows.size(); ++i) {
    (*values)[i] = Arithmetic(e.op, left.At(i), right.At(i), ctx_);
    if (ctx_.failed()) return false;
  }
  return true;
}

bool BatchEval::Call(const Expr& e, const BatchInput& in, std::span<const uint32_t> rows,
                     Operand* out) {
  constexpr size_t kFew = 3;
  const Function& f = *e.function;
  if (f.aggregate != Aggregate::kNone) {
    std::vector<Value>* values = BeginValues(rows.size(), out);
    for (size_t i = 0; i < rows.size(); ++i) (*values)[i] = in.rows->Row(rows[i])[e.slot];
    return true;
  }
  if (f.first_found) return FirstFound(e, in, rows, out);
  const size_t n = e.kids.size();
  // Without arguments it may differ from call to call.
  if (n == 0 || n > kFew) return RowByRow(e, in, rows, out);
  Operand arguments[kFew];
  for (size_t a = 0; a < n; ++a) {
    if (!Evaluate(*e.kids[a], in, rows, &arguments[a])) return false;
  }
  std::vector<Value>* values = BeginValues(rows.size(), out);
  Value args[kFew];
  for (size_t i = 0; i < rows.size(); ++i) {
    bool null = false;
    for (size_t a = 0; a < n; ++a) {
      args[a] = arguments[a].At(i);
      null = null || args[a].is_null();
    }
    if (null && f.null_in) continue;
    (*values)[i] = f.call(ctx_, {args, n});
    if (ctx_.failed()) return false;
  }
  return true;
}

bool BatchEval::Truths(const Expr& e, const BatchInput& in, std::span<const uint32_t> rows,
                       std::vector<int8_t>* out) {
  if (ctx_.failed()) return false;
  out->assign(rows.size(), -1);
  switch (e.kind) {
    case Expr::Kind::kBinary:
      if (e.op == Op::kAnd || e.op == Op::kOr || e.op == Op::kXor) {
        return Logical(e, in, rows, out);
      }
      if (IsComparison(e.op)) return Compare(e.op, *e.kids[0], *e.kids[1], in, rows, out);
      if (IsStringTest(e.op)) return Strings(e, in, rows, out);
      if (e.op != Op::kIn) break;
      if (IsConstant(*e.kids[1])) return InConstant(e, in, rows, out);
      {
        Operand result;
        if (!RowByRow(e, in, rows, &result)) return false;
        for (size_t i = 0; i < rows.size(); ++i) (*out)[i] = TruthOf(result.At(i));
        return true;
      }
    case Expr::Kind::kUnary: {
      if (e.op == Op::kNot) {
        if (!Truths(*e.kids[0], in, rows, out)) return false;
        for (int8_t& truth : *out) {
          if (truth >= 0) truth = static_cast<int8_t>(1 - truth);
        }
        return true;
      }
      if (e.op != Op::kIsNull && e.op != Op::kIsNotNull) break;
      Operand of;
      if (!Evaluate(*e.kids[0], in, rows, &of)) return false;
      for (size_t i = 0; i < rows.size(); ++i) {
        (*out)[i] = of.At(i).is_null() == (e.op == Op::kIsNull) ? 1 : 0;
      }
      return true;
    }
    case Expr::Kind::kChain: {
      // An operand in the middle is evaluated once: another time it may be another value.
      const auto steady = [](const ExprPtr& kid) {
        return kid->kind == Expr::Kind::kLiteral || kid->kind == Expr::Kind::kParameter ||
               kid->kind == Expr::Kind::kVariable ||
               (kid->kind == Expr::Kind::kProperty && kid->kids[0]->kind == Expr::Kind::kVariable);
      };
      if (!std::all_of(e.kids.begin() + 1, e.kids.end() - 1, steady)) {
        Operand result;
        if (!RowByRow(e, in, rows, &result)) return false;
        for (size_t i = 0; i < rows.size(); ++i) (*out)[i] = TruthOf(result.At(i));
        return true;
      }
      // Behind a comparison that is false nothing is evaluated.
      std::vector<uint32_t> left(rows.begin(), rows.end()), places(rows.size());
      std::iota(places.begin(), places.end(), 0);
      std::fill(out->begin(), out->end(), 1);
      std::vector<int8_t> truths;
      for (size_t i = 0; i < e.ops.size() && !left.empty(); ++i) {
        truths.assign(left.size(), -1);
        if (!Compare(e.ops[i], *e.kids[i], *e.kids[i + 1], in, left, &truths)) return false;
        size_t kept = 0;
        for (size_t k = 0; k < left.size(); ++k) {
          int8_t& truth = (*out)[places[k]];
          truth = truths[k] == 1 ? truth : truths[k];
          if (truths[k] == 0) continue;
          left[kept] = left[k];
          places[kept++] = places[k];
        }
        left.resize(kept);
        places.resize(kept);
      }
      return true;
    }
    case Expr::Kind::kHasLabels:
      return Labels(e, in, rows, out);
    default:
      break;
  }
  Operand result;
  if (!Evaluate(e, in, rows, &result)) return false;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Value v = result.At(i);
    if (!v.is_null() && !v.is_bool()) {
      ctx_.TypeError(Concat("expected a BOOLEAN, found a ", TypeName(v.type())));
      return false;
    }
    (*out)[i] = TruthOf(v);
  }
  return true;
}

bool BatchEval::Logical(const Expr& e, const BatchInput& in, std::span<const uint32_t> rows,
                        std::vector<int8_t>* out) {
  if (!Truths(*e.kids[0], in, rows, out)) return false;
  // What decides alone.
  const int8_t decides = e.op == Op::kAnd ? 0 : e.op == Op::kOr ? 1 : 2;
  std::vector<uint32_t> left, places;
  for (size_t i = 0; i < rows.size(); ++i) {
    if ((*out)[i] == decides) continue;
    left.push_back(rows[i]);
    places.push_back(static_cast<uint32_t>(i));
  }
  if (left.empty()) return true;
  std::vector<int8_t> right;
  if (!Truths(*e.kids[1], in, left, &right)) return false;
  for (size_t i = 0; i < left.size(); ++i) {
    int8_t& a = (*out)[places[i]];
    const int8_t b = right[i];
    if (b == decides) {
      a = b;
    } else if (a < 0 || b < 0) {
      a = -1;
    } else {
      a = static_cast<int8_t>(e.op == Op::kXor ? a ^ b : 1 - decides);
    }
  }
  return true;
}

bool BatchEval::Compare(Op op, const Expr& left, const Expr& right, const BatchInput& in,
                        std::span<const uint32_t> rows, std::vector<int8_t>* out) {
  Operand a, b;
  if (!Evaluate(left, in, rows, &a) || !Evaluate(right, in, rows, &b)) return false;
  if (CompareNumbers(op, a, b, out)) return true;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Value left_value = a.At(i), right_value = b.At(i);
    const size_t weight = std::min(left_value.Weight(), right_value.Weight());
    if (weight > 0 && !ctx_.Tick(weight)) return false;
    (*out)[i] = CompareValues(op, left_value, right_value);
  }
  return true;
}

// In a list that all rows have in common.
bool BatchEval::InConstant(const Expr& e, const BatchInput& in, std::span<const uint32_t> rows,
                           std::vector<int8_t>* out) {
  Operand value, list;
  if (!Evaluate(*e.kids[0], in, rows, &value) || !Evaluate(*e.kids[1], in, rows, &list)) {
    return false;
  }
  if (rows.empty() || list.value.is_null()) return true;
  if (!list.value.is_list()) {
    ctx_.TypeError(Concat("IN needs a LIST, found a ", TypeName(list.value.type())));
    return false;
  }
  const ListSet* const set = FindSet(list.value, rows.size(), ctx_);
  for (size_t i = 0; i < rows.size(); ++i) {
    (*out)[i] = static_cast<int8_t>(FindInList(value.At(i), list.value.as_list(), set, ctx_));
  }
  return !ctx_.failed();
}

bool BatchEval::Strings(const Expr& e, const BatchInput& in, std::span<const uint32_t> rows,
                        std::vector<int8_t>* out) {
  Operand texts, parts;
  if (!Evaluate(*e.kids[0], in, rows, &texts) || !Evaluate(*e.kids[1], in, rows, &parts)) {
    return false;
  }
  const RegexPattern* pattern = nullptr;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Value a = texts.At(i);
    if (!a.is_string()) continue;
    if (e.op != Op::kRegex || !parts.constant) {
      (*out)[i] = TruthOf(StringTest(e.op, a, parts.At(i), ctx_));
      if (ctx_.failed()) return false;
      continue;
    }
    if (!parts.value.is_string()) return true;
    if (pattern == nullptr) pattern = FindPattern(parts.value.as_string(), ctx_);
    if (pattern == nullptr) return false;
    (*out)[i] = pattern->Matches(a.as_string()) ? 1 : 0;
  }
  return true;
}

}  // namespace pulse::cypher
