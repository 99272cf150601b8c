#include "bench/macro/graph/gtpc_data.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>

#include "fmt/format.h"

namespace pulse::bench {
namespace {

// By their letters nations are numbered: the first ones are those that queries name, and the only
// ones that a tiny graph has.
constexpr std::string_view kLetters =
    "bBPRzcoAakeCdDEfFgGhHiIjJKlLmMnNOpqQrsStTuUvVwWxXyYZ0123456789";
constexpr size_t kTinyLetters = 8;

struct Nation {
  std::string_view name;
  int region;
};
constexpr std::array<std::string_view, 5> kRegions = {"AFRICA", "AMERICA", "ASIA", "EUROPE",
                                                      "OCEANIA"};
constexpr std::array<Nation, kLetters.size()> kNations = {
    {{"GERMANY", 4},     {"CAMBODIA", 3}, {"GREECE", 4},   {"TAIWAN", 3},  {"KENYA", 1},
     {"CHILE", 2},       {"FIJI", 5},     {"SPAIN", 4},    {"MOROCCO", 1}, {"CANADA", 2},
     {"JAPAN", 3},       {"SAMOA", 5},    {"ALGERIA", 1},  {"ANGOLA", 1},  {"BENIN", 1},
     {"BOTSWANA", 1},    {"CAMEROON", 1}, {"CHAD", 1},     {"EGYPT", 1},   {"GABON", 1},
     {"GHANA", 1},       {"MALI", 1},     {"NAMIBIA", 1},  {"SENEGAL", 1}, {"TUNISIA", 1},
     {"ARGENTINA", 2},   {"BELIZE", 2},   {"BOLIVIA", 2},  {"BRAZIL", 2},  {"COLOMBIA", 2},
     {"CUBA", 2},        {"ECUADOR", 2},  {"HAITI", 2},    {"MEXICO", 2},  {"PANAMA", 2},
     {"PERU", 2},        {"URUGUAY", 2},  {"BHUTAN", 3},   {"INDIA", 3},   {"JORDAN", 3},
     {"LAOS", 3},        {"MALAYSIA", 3}, {"MONGOLIA", 3}, {"NEPAL", 3},   {"OMAN", 3},
     {"THAILAND", 3},    {"VIETNAM", 3},  {"AUSTRIA", 4},  {"BELGIUM", 4}, {"DENMARK", 4},
     {"ESTONIA", 4},     {"FINLAND", 4},  {"FRANCE", 4},   {"HUNGARY", 4}, {"ITALY", 4},
     {"NORWAY", 4},      {"POLAND", 4},   {"PORTUGAL", 4}, {"SWEDEN", 4},  {"AUSTRALIA", 5},
     {"NEW ZEALAND", 5}, {"VANUATU", 5}}};

// TPC-C's syllables of last names (4.3.2.3).
constexpr std::array<std::string_view, 10> kSyllables = {"BAR", "OUGHT", "ABLE",  "PRI",   "PRES",
                                                         "ESE", "ANTI",  "CALLY", "ATION", "EING"};
constexpr std::array<std::string_view, 16> kWords = {
    "quick", "steel",   "late",  "order", "good",  "paper", "spare",   "copper",
    "large", "invoice", "plain", "early", "small", "brass", "careful", "parcel"};

enum Table : uint64_t {
  kItem = 1,
  kWarehouse,
  kDistrict,
  kCustomer,
  kCustomerText,
  kStock,
  kStockText,
  kOrder,
  kLine,
  kSupplier,
  kNation,
  kRegion,
  kPermutation
};

uint64_t Mix(uint64_t x) {  // SplitMix64's step
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// The numbers of one row.
class RowRandom {
 public:
  RowRandom(uint64_t seed, Table table, int64_t row, std::string_view letters)
      : state_(Mix(Mix(seed * 64 + table) + static_cast<uint64_t>(row))), letters_(letters) {}
  uint64_t Next() { return state_ = Mix(state_); }
  // Both ends are among them.
  int64_t Number(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(Next() % static_cast<uint64_t>(most - least + 1));
  }
  std::string Letters(int64_t least, int64_t most) {
    std::string text(static_cast<size_t>(Number(least, most)), ' ');
    for (size_t i = 0; i < text.size();) {
      // Eight letters of one number.
      uint64_t bits = Next();
      for (int n = 0; n < 8 && i < text.size(); ++n, bits >>= 8) {
        text[i++] = letters_[((bits & 0xFF) * letters_.size()) >> 8];
      }
    }
    return text;
  }
  std::string Digits(size_t count) {
    std::string text(count, '0');
    for (char& c : text) c = static_cast<char>('0' + Number(0, 9));
    return text;
  }
  // A tenth of items and stocks say so (TPC-C 4.3.3.1).
  std::string ItemText() {
    std::string text = Letters(26, 50);
    if (Number(0, 9) == 0) {
      text.replace(static_cast<size_t>(Number(0, static_cast<int64_t>(text.size()) - 8)), 8,
                   "ORIGINAL");
    }
    return text;
  }
  std::string Words(int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      if (i > 0) text += ' ';
      text += kWords[static_cast<size_t>(Number(0, kWords.size() - 1))];
    }
    return text;
  }
  GtpcData::Address Address() {
    GtpcData::Address address;
    address.street_1 = Letters(10, 20);
    address.street_2 = Letters(10, 20);
    address.city = Letters(10, 20);
    address.state = Letters(2, 2);
    address.zip = Digits(4) + "11111";
    return address;
  }
  int64_t Time(int first_year, int last_year) {
    return Number(SecondsOf(first_year, 1, 1), SecondsOf(last_year + 1, 1, 1) - 1);
  }

 private:
  uint64_t state_;
  const std::string_view letters_;
};

}  // namespace

int64_t SecondsOf(int year, unsigned month, unsigned day) {
  const auto days = std::chrono::sys_days(std::chrono::year(year) / static_cast<int>(month) /
                                          static_cast<int>(day));
  return days.time_since_epoch().count() * int64_t{86400};
}

std::string MoneyText(int64_t hundredths) {
  const int64_t whole = std::abs(hundredths);
  return fmt::format("{}{}.{:02}", hundredths < 0 ? "-" : "", whole / 100, whole % 100);
}

std::string TimeText(int64_t seconds) {
  const auto days = std::chrono::floor<std::chrono::days>(
      std::chrono::sys_seconds(std::chrono::seconds(seconds)));
  const std::chrono::year_month_day date(days);
  const int64_t rest = seconds % 86400;
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     rest / 3600, rest / 60 % 60, rest % 60);
}

GtpcData::GtpcData(const GtpcOptions& options)
    : options_(options),
      districts_each_(options.tiny ? 4 : 10),
      customers_each_(options.tiny ? 120 : 3000),
      items_(options.tiny ? 800 : 100'000),
      suppliers_(options.tiny ? 100 : 10'000),
      letters_(kLetters.substr(0, options.tiny ? kTinyLetters : kLetters.size())),
      customer_of_order_(static_cast<size_t>(customers())) {
  std::iota(customer_of_order_.begin(), customer_of_order_.end(), 1);
  RowRandom random(options_.seed, kPermutation, 0, letters_);
  for (size_t i = customer_of_order_.size(); i > 1; --i) {
    std::swap(customer_of_order_[i - 1], customer_of_order_[random.Next() % i]);
  }
  first_line_.reserve(customer_of_order_.size() + 1);
  first_line_.push_back(1);
  for (int64_t order = 1; order <= orders(); ++order) {
    first_line_.push_back(first_line_.back() + OrderRow(order).line_count);
  }
  if (!options_.repaired) return;
  std::vector<uint16_t> counts(static_cast<size_t>(stocks())), quantities(counts.size());
  std::vector<int64_t> delivered(static_cast<size_t>(customers()));
  for (int64_t order = 1; order <= orders(); ++order) {
    const size_t customer = static_cast<size_t>(customer_of_order_[static_cast<size_t>(order - 1)]);
    for (int64_t id = first_line(order); id < first_line(order + 1); ++id) {
      const Line line = LineRow(order, id);
      const auto stock = static_cast<size_t>(line.stock - 1);
      counts[stock] = static_cast<uint16_t>(counts[stock] + 1);
      quantities[stock] = static_cast<uint16_t>(quantities[stock] + line.quantity);
      if (line.delivery != kNoDelivery) delivered[customer - 1] += line.amount;
    }
  }
  orders_of_stock_ = std::move(counts);
  quantity_of_stock_ = std::move(quantities);
  delivered_to_ = std::move(delivered);
}

int64_t GtpcData::nations() { return kNations.size(); }
int64_t GtpcData::regions() { return kRegions.size(); }

GtpcData::Item GtpcData::ItemRow(int64_t id) const {
  RowRandom random(options_.seed, kItem, id, letters_);
  Item item;
  item.image = random.Number(1, 10'000);
  item.name = random.Letters(14, 24);
  item.price = random.Number(100, 10'000);
  item.data = random.ItemText();
  return item;
}

GtpcData::Site GtpcData::SiteRow(int table, int64_t id, int64_t ytd) const {
  RowRandom random(options_.seed, static_cast<Table>(table), id, letters_);
  Site site;
  site.name = random.Letters(6, 10);
  site.address = random.Address();
  site.tax = random.Number(0, 20);
  site.ytd = ytd;
  return site;
}

GtpcData::Site GtpcData::WarehouseRow(int64_t id) const {
  return SiteRow(kWarehouse, id, 300'000'00);
}

GtpcData::Site GtpcData::DistrictRow(int64_t id) const { return SiteRow(kDistrict, id, 30'000'00); }

GtpcData::Customer GtpcData::CustomerRow(int64_t id, bool with_data) const {
  RowRandom random(options_.seed, kCustomer, id, letters_);
  Customer customer;
  customer.first = random.Letters(8, 16);
  // The first thousand of a district have all names; others prefer some (TPC-C's NURand).
  const int64_t in_district = (id - 1) % customers_each_;
  const int64_t name = in_district < 1000
                           ? in_district
                           : ((random.Number(0, 255) | random.Number(0, 999)) + 42) % 1000;
  for (const int64_t digit : {name / 100, name / 10 % 10, name % 10}) {
    customer.last += kSyllables[static_cast<size_t>(digit)];
  }
  customer.address = random.Address();
  customer.phone = random.Digits(16);
  customer.since = random.Time(1993, 2009);
  customer.credit = random.Number(0, 9) == 0 ? "BC" : "GC";
  customer.discount = random.Number(0, 50);
  customer.balance = -10'00;
  if (!delivered_to_.empty()) customer.balance += delivered_to_[static_cast<size_t>(id - 1)];
  if (with_data) {
    customer.data = RowRandom(options_.seed, kCustomerText, id, letters_).Letters(300, 500);
  }
  return customer;
}

GtpcData::Stock GtpcData::StockRow(int64_t id, bool with_texts) const {
  RowRandom random(options_.seed, kStock, id, letters_);
  Stock stock;
  stock.quantity = random.Number(10, 100);
  const auto at = static_cast<size_t>(id - 1);
  if (!orders_of_stock_.empty()) {
    stock.order_count = orders_of_stock_[at];
    stock.ytd = quantity_of_stock_[at];
  }
  if (!with_texts) return stock;
  RowRandom texts(options_.seed, kStockText, id, letters_);
  for (int district = 0; district < 10; ++district) {
    stock.district_texts.push_back(texts.Letters(24, 24));
  }
  stock.data = texts.ItemText();
  return stock;
}

GtpcData::Order GtpcData::OrderRow(int64_t id) const {
  RowRandom random(options_.seed, kOrder, id, letters_);
  Order order;
  order.customer = customer_of_order_[static_cast<size_t>(id - 1)];
  order.entry = random.Time(2010, 2012);
  order.line_count = random.Number(5, 15);
  // Of a district's orders the last three tenths are new.
  order.is_new = (id - 1) % customers_each_ >= customers_each_ * 7 / 10;
  const int64_t carrier = random.Number(1, 10);
  order.carrier = order.is_new ? 0 : carrier;
  return order;
}

GtpcData::Line GtpcData::LineRow(int64_t order, int64_t id) const {
  RowRandom random(options_.seed, kLine, id, letters_);
  const bool is_new = (order - 1) % customers_each_ >= customers_each_ * 7 / 10;
  Line line;
  line.number = id - first_line(order) + 1;
  const int64_t delivery = random.Time(2011, 2012);
  const int64_t quantity = random.Number(1, 10);
  const int64_t amount = random.Number(10, 10'000);
  line.delivery = is_new ? kNoDelivery : delivery;
  line.quantity = options_.repaired ? quantity : 5;
  line.amount = options_.repaired || is_new ? amount : 0;
  const int64_t warehouse = WarehouseOfDistrict((order - 1) / customers_each_ + 1);
  line.stock = (warehouse - 1) * items_ + random.Number(1, items_);
  line.text = random.Letters(24, 24);
  return line;
}

GtpcData::Supplier GtpcData::SupplierRow(int64_t id) const {
  RowRandom random(options_.seed, kSupplier, id, letters_);
  Supplier supplier;
  supplier.name = random.Letters(14, 24);
  supplier.address = random.Letters(20, 40);
  supplier.phone = random.Digits(16);
  supplier.balance = random.Number(1000'00, 10'000'00);
  supplier.comment = random.Words(10);
  if (random.Number(0, 19) == 0) supplier.comment += " bad paper";
  supplier.nation = random.Number(1, static_cast<int64_t>(letters_.size()));
  return supplier;
}

std::string GtpcData::NationComment(int64_t id) const {
  return RowRandom(options_.seed, kNation, id, letters_).Words(12);
}

std::string GtpcData::RegionComment(int64_t id) const {
  return RowRandom(options_.seed, kRegion, id, letters_).Words(12);
}

int64_t GtpcData::SupplierOfStock(int64_t stock) const {
  const int64_t supplier = ItemOfStock(stock) * WarehouseOfStock(stock) % suppliers_;
  return options_.repaired ? supplier + 1 : supplier;
}

int64_t GtpcData::NationOfCustomer(const Customer& customer) const {
  return static_cast<int64_t>(letters_.find(customer.address.state[0])) + 1;
}

std::string_view GtpcData::NationName(int64_t nation) {
  return kNations[static_cast<size_t>(nation - 1)].name;
}
int64_t GtpcData::RegionOfNation(int64_t nation) {
  return kNations[static_cast<size_t>(nation - 1)].region;
}
std::string_view GtpcData::RegionName(int64_t region) {
  return kRegions[static_cast<size_t>(region - 1)];
}

}  // namespace pulse::bench
