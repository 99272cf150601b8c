#include "services/ops/filter/samples.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace pulse::filter {
namespace {

constexpr size_t kLongest = 4096;
// Texts that stand where rules have their edges.
constexpr std::string_view kSurroundings[] = {
    "",     " ",        "a",      "_", "7",    "\r", "\t",
    "\x80", "\xc3\xa9", "\xff",   ".", "foo ", "K",  "\xe2\x84\xaa",
    "\v",   "\xc5\xbf", {"\0", 1}};
constexpr uint32_t kOthers[] = {0x80,   0xe9,   0x3b1,   0x430,   0x4e2d,
                                0x212a, 0xffff, 0x1f600, 0x10ffff};

size_t Below(size_t n, std::mt19937_64& random) { return static_cast<size_t>(random() % n); }

void Append(const Node& node, std::mt19937_64& random, std::string* to) {
  if (to->size() > kLongest) return;
  switch (node.kind) {
    case Node::Kind::kSet: {
      const CharSet& set = node.set;
      const bool ascii = set.ascii.any();
      const bool beyond = set.many_others || !set.others.empty();
      if (set.any_byte && Below(4, random) == 0) {
        to->push_back(static_cast<char>(0x80 + Below(0x80, random)));
      } else if (beyond && (!ascii || Below(8, random) == 0)) {
        AppendUtf8(set.many_others ? kOthers[Below(std::size(kOthers), random)]
                                   : set.others[Below(set.others.size(), random)],
                   to);
      } else if (ascii) {
        // The first one from a random place on.
        const size_t from = Below(set.ascii.size(), random);
        size_t c = set.ascii[from] ? from : set.ascii._Find_next(from);
        if (c == set.ascii.size()) c = set.ascii._Find_first();
        to->push_back(static_cast<char>(c));
      }
      break;
    }
    case Node::Kind::kConcat:
      for (const Node& child : node.children) Append(child, random, to);
      break;
    case Node::Kind::kAlternate:
      Append(node.children[Below(node.children.size(), random)], random, to);
      break;
    case Node::Kind::kRepeat: {
      const auto least = static_cast<size_t>(node.least);
      size_t times = least + Below(4, random);
      if (node.most != kNoLimit) times = std::min(times, static_cast<size_t>(node.most));
      for (size_t i = 0; i < times; ++i) Append(node.children.front(), random, to);
      break;
    }
    default:
      break;
  }
}

}  // namespace

std::string MakeMatching(const Node& node, std::mt19937_64& random) {
  std::string text;
  Append(node, random, &text);
  return text;
}

std::string Damage(std::string record, std::mt19937_64& random) {
  const auto surrounding = [&random] {
    return std::string(kSurroundings[Below(std::size(kSurroundings), random)]);
  };
  const size_t changes = Below(4, random);
  for (size_t i = 0; i < changes; ++i) {
    const size_t at = Below(record.size() + 1, random);
    switch (Below(7, random)) {
      case 0:
        record = surrounding() + record;
        break;
      case 1:
        record += surrounding();
        break;
      case 2:
        record.insert(at, surrounding());
        break;
      case 3:
        if (at < record.size()) record.erase(at, 1 + Below(3, random));
        break;
      case 4:
        if (at < record.size()) record.insert(at, record.substr(at, 1 + Below(4, random)));
        break;
      case 5:
        if (at < record.size()) {
          const auto c = static_cast<unsigned char>(record[at]);
          record[at] = static_cast<char>(std::isupper(c) != 0 ? std::tolower(c) : std::toupper(c));
        }
        break;
      default:
        if (at < record.size()) record[at] = static_cast<char>(Below(256, random));
        break;
    }
  }
  return record;
}

}  // namespace pulse::filter
