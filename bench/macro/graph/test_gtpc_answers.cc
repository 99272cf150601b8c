#include "bench/macro/graph/test_gtpc_answers.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace pulse::bench {
namespace {

struct FullLine : GtpcData::Line {
  int64_t order = 0;
};

// All of the graph, as tables whose rows are their number less 1.
struct Tables {
  explicit Tables(const GtpcData& from) : data(from) {
    for (int64_t i = 1; i <= data.items(); ++i) items.push_back(data.ItemRow(i));
    for (int64_t i = 1; i <= data.customers(); ++i) customers.push_back(data.CustomerRow(i));
    for (int64_t i = 1; i <= data.stocks(); ++i) stocks.push_back(data.StockRow(i));
    for (int64_t i = 1; i <= data.suppliers(); ++i) suppliers.push_back(data.SupplierRow(i));
    for (int64_t o = 1; o <= data.orders(); ++o) {
      orders.push_back(data.OrderRow(o));
      for (int64_t i = data.first_line(o); i < data.first_line(o + 1); ++i) {
        lines.push_back({data.LineRow(o, i), o});
      }
    }
  }
  const GtpcData::Order& OrderOf(const FullLine& line) const { return orders[At(line.order)]; }
  const GtpcData::Customer& CustomerOf(const FullLine& line) const {
    return customers[At(OrderOf(line).customer)];
  }
  const GtpcData::Item& ItemOf(int64_t stock) const { return items[At(data.ItemOfStock(stock))]; }
  // Null where the relationship dangles.
  const GtpcData::Supplier* SupplierOf(int64_t stock) const {
    const int64_t supplier = data.SupplierOfStock(stock);
    return supplier == 0 ? nullptr : &suppliers[At(supplier)];
  }
  static size_t At(int64_t number) { return static_cast<size_t>(number - 1); }

  const GtpcData& data;
  std::vector<GtpcData::Item> items;
  std::vector<GtpcData::Customer> customers;
  std::vector<GtpcData::Stock> stocks;
  std::vector<GtpcData::Supplier> suppliers;
  std::vector<GtpcData::Order> orders;
  std::vector<FullLine> lines;
};

double Money(int64_t hundredths) { return static_cast<double>(hundredths) / 100; }
std::string Name(int64_t nation) { return std::string(GtpcData::NationName(nation)); }
bool InEurope(int64_t nation) {
  return GtpcData::RegionName(GtpcData::RegionOfNation(nation)) == "EUROPE";
}
bool Ends(const std::string& text, std::string_view with) { return text.ends_with(with); }
bool Starts(const std::string& text, std::string_view with) { return text.starts_with(with); }
int64_t YearOf(int64_t seconds) { return std::stoll(TimeText(seconds).substr(0, 4)); }

const int64_t k2007 = SecondsOf(2007, 1, 2);
const int64_t k2012 = SecondsOf(2012, 1, 2);

Answer Q1(const Tables& t) {
  struct Sums {
    int64_t quantity = 0, amount = 0, lines = 0;
  };
  std::map<int64_t, Sums> by_number;
  for (const FullLine& line : t.lines) {
    if (line.delivery <= k2007) continue;
    Sums& sums = by_number[line.number];
    sums.quantity += line.quantity;
    sums.amount += line.amount;
    ++sums.lines;
  }
  Answer answer;
  for (const auto& [number, s] : by_number) {
    const auto lines = static_cast<double>(s.lines);
    answer.push_back({number, s.quantity, Money(s.amount), static_cast<double>(s.quantity) / lines,
                      Money(s.amount) / lines, s.lines});
  }
  return answer;
}

Answer Q2(const Tables& t) {
  const auto wanted = [&](int64_t stock) {
    const GtpcData::Supplier* supplier = t.SupplierOf(stock);
    return supplier != nullptr && InEurope(supplier->nation) && Ends(t.ItemOf(stock).data, "b");
  };
  std::map<int64_t, int64_t> least;
  for (int64_t stock = 1; stock <= t.data.stocks(); ++stock) {
    if (!wanted(stock)) continue;
    const int64_t quantity = t.stocks[Tables::At(stock)].quantity;
    const auto [it, added] = least.emplace(t.data.ItemOfStock(stock), quantity);
    if (!added) it->second = std::min(it->second, quantity);
  }
  Answer answer;
  for (int64_t stock = 1; stock <= t.data.stocks(); ++stock) {
    const int64_t item = t.data.ItemOfStock(stock);
    if (!wanted(stock) || t.stocks[Tables::At(stock)].quantity != least[item]) continue;
    const GtpcData::Supplier& s = *t.SupplierOf(stock);
    answer.push_back(
        {item, s.name, Name(s.nation), t.ItemOf(stock).name, s.address, s.phone, s.comment});
  }
  return answer;
}

Answer Q3(const Tables& t) {
  std::map<int64_t, int64_t> revenue;
  for (const FullLine& line : t.lines) {
    if (!Starts(t.CustomerOf(line).address.state, "A") || t.OrderOf(line).entry <= k2007) continue;
    revenue[line.order] += line.amount;
  }
  Answer answer;
  for (const auto& [order, amount] : revenue) {
    answer.push_back({order, TimeText(t.orders[Tables::At(order)].entry), Money(amount)});
  }
  return answer;
}

Answer Q4(const Tables& t) {
  std::map<int64_t, int64_t> count;
  for (const FullLine& line : t.lines) {
    const GtpcData::Order& order = t.OrderOf(line);
    if (order.entry < k2007 || order.entry >= k2012 || line.delivery < order.entry) continue;
    ++count[order.line_count];
  }
  Answer answer;
  for (const auto& [size, n] : count) answer.push_back({size, n});
  return answer;
}

Answer Q5(const Tables& t) {
  std::map<int64_t, int64_t> revenue;
  for (const FullLine& line : t.lines) {
    const int64_t nation = t.data.NationOfCustomer(t.CustomerOf(line));
    if (InEurope(nation)) revenue[nation] += line.amount;
  }
  Answer answer;
  for (const auto& [nation, amount] : revenue) answer.push_back({Name(nation), Money(amount)});
  return answer;
}

Answer Q6(const Tables& t) {
  int64_t sum = 0;
  for (const FullLine& line : t.lines) sum += line.amount;
  return {{Money(sum)}};
}

Answer Q7(const Tables& t) {
  std::map<std::tuple<std::string, std::string, int64_t>, int64_t> revenue;
  for (const FullLine& line : t.lines) {
    const GtpcData::Supplier* supplier = t.SupplierOf(line.stock);
    if (supplier == nullptr || line.delivery < k2007 || line.delivery >= k2012) continue;
    const GtpcData::Customer& customer = t.CustomerOf(line);
    const std::string from = Name(supplier->nation), to = Name(t.data.NationOfCustomer(customer));
    if (!(from == "GERMANY" && to == "CAMBODIA") && !(from == "CAMBODIA" && to == "GERMANY")) {
      continue;
    }
    revenue[{from, customer.address.state.substr(0, 1), YearOf(t.OrderOf(line).entry)}] +=
        line.amount;
  }
  Answer answer;
  for (const auto& [key, amount] : revenue) {
    answer.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), Money(amount)});
  }
  return answer;
}

Answer Q8(const Tables& t) {
  std::map<int64_t, std::pair<int64_t, int64_t>> by_year;  // of Greece, of all
  for (const FullLine& line : t.lines) {
    const GtpcData::Supplier* supplier = t.SupplierOf(line.stock);
    const GtpcData::Order& order = t.OrderOf(line);
    if (supplier == nullptr || t.data.ItemOfStock(line.stock) >= 1000 ||
        !Ends(t.ItemOf(line.stock).data, "b") ||
        !InEurope(t.data.NationOfCustomer(t.CustomerOf(line))) || order.entry < k2007 ||
        order.entry >= k2012) {
      continue;
    }
    auto& [greece, all] = by_year[YearOf(order.entry)];
    all += line.amount;
    if (Name(supplier->nation) == "GREECE") greece += line.amount;
  }
  Answer answer;
  for (const auto& [year, sums] : by_year) {
    answer.push_back({year, static_cast<double>(sums.first) / static_cast<double>(sums.second)});
  }
  return answer;
}

Answer Q9(const Tables& t) {
  std::map<std::pair<std::string, int64_t>, int64_t> profit;
  for (const FullLine& line : t.lines) {
    const GtpcData::Supplier* supplier = t.SupplierOf(line.stock);
    if (supplier == nullptr || !Ends(t.ItemOf(line.stock).data, "BB")) continue;
    profit[{Name(supplier->nation), YearOf(t.OrderOf(line).entry)}] += line.amount;
  }
  Answer answer;
  for (const auto& [key, amount] : profit) {
    answer.push_back({key.first, key.second, Money(amount)});
  }
  return answer;
}

Answer Q10(const Tables& t) {
  std::map<int64_t, int64_t> revenue;
  for (const FullLine& line : t.lines) {
    const GtpcData::Order& order = t.OrderOf(line);
    if (order.entry < k2007 || order.entry > line.delivery) continue;
    revenue[order.customer] += line.amount;
  }
  Answer answer;
  for (const auto& [id, amount] : revenue) {
    const GtpcData::Customer& c = t.customers[Tables::At(id)];
    answer.push_back(
        {id, c.last, c.address.city, c.phone, Name(t.data.NationOfCustomer(c)), Money(amount)});
  }
  return answer;
}

Answer Q11(const Tables& t) {
  if (!t.data.options().repaired) return {};  // no nation has that spelling
  int64_t all = 0;
  std::map<int64_t, int64_t> orders;
  for (int64_t stock = 1; stock <= t.data.stocks(); ++stock) {
    if (Name(t.SupplierOf(stock)->nation) != "GERMANY") continue;
    all += t.stocks[Tables::At(stock)].order_count;
    orders[t.data.ItemOfStock(stock)] += t.stocks[Tables::At(stock)].order_count;
  }
  Answer answer;
  for (const auto& [item, n] : orders) {
    if (static_cast<double>(n) > static_cast<double>(all) * 0.00005) answer.push_back({item, n});
  }
  return answer;
}

Answer Q12(const Tables& t) {
  std::map<int64_t, std::pair<int64_t, int64_t>> counts;
  for (const FullLine& line : t.lines) {
    const GtpcData::Order& order = t.OrderOf(line);
    if (order.entry > line.delivery) continue;
    auto& [high, low] = counts[order.line_count];
    ++(order.carrier == 1 || order.carrier == 2 ? high : low);
  }
  Answer answer;
  for (const auto& [size, n] : counts) answer.push_back({size, n.first, n.second});
  return answer;
}

Answer Q13(const Tables& t) {
  std::map<int64_t, int64_t> of_customer, of_count;
  for (const GtpcData::Order& order : t.orders) {
    if (order.carrier > 8) ++of_customer[order.customer];
  }
  for (const auto& [customer, n] : of_customer) ++of_count[n];
  Answer answer;
  for (const auto& [orders, customers] : of_count) answer.push_back({orders, customers});
  return answer;
}

Answer Q14(const Tables& t) {
  int64_t promoted = 0, all = 0;
  for (const FullLine& line : t.lines) {
    all += line.amount;
    if (Starts(t.ItemOf(line.stock).data, "PR")) promoted += line.amount;
  }
  return {{100 * Money(promoted) / (1 + Money(all))}};
}

Answer Q15(const Tables& t) {
  std::map<int64_t, int64_t> revenue;
  int64_t most = 0;
  for (const FullLine& line : t.lines) {
    if (t.SupplierOf(line.stock) == nullptr || line.delivery < SecondsOf(2011, 1, 2)) continue;
    most = std::max(most, revenue[t.data.SupplierOfStock(line.stock)] += line.amount);
  }
  Answer answer;
  for (const auto& [id, amount] : revenue) {
    if (amount != most) continue;
    const GtpcData::Supplier& s = t.suppliers[Tables::At(id)];
    answer.push_back({id, s.name, s.address, s.phone, Money(amount)});
  }
  return answer;
}

Answer Q16(const Tables& t) {
  std::map<std::tuple<std::string, int64_t, std::string>, std::set<int64_t>> suppliers;
  for (int64_t stock = 1; stock <= t.data.stocks(); ++stock) {
    const GtpcData::Supplier* supplier = t.SupplierOf(stock);
    const GtpcData::Item& item = t.ItemOf(stock);
    if (supplier == nullptr || Starts(item.data, "zz") ||
        supplier->comment.find("bad") != std::string::npos) {
      continue;
    }
    suppliers[{item.name, item.price, item.data.substr(0, 3)}].insert(
        t.data.SupplierOfStock(stock));
  }
  Answer answer;
  for (const auto& [key, ids] : suppliers) {
    answer.push_back({std::get<0>(key), Money(std::get<1>(key)), std::get<2>(key),
                      static_cast<int64_t>(ids.size())});
  }
  return answer;
}

Answer Q17(const Tables& t) {
  std::map<int64_t, std::pair<int64_t, int64_t>> quantities;  // sum, count
  for (const FullLine& line : t.lines) {
    if (!Ends(t.ItemOf(line.stock).data, "b")) continue;
    auto& [sum, count] = quantities[t.data.ItemOfStock(line.stock)];
    sum += line.quantity;
    ++count;
  }
  int64_t amount = 0;
  for (const FullLine& line : t.lines) {
    const auto it = quantities.find(t.data.ItemOfStock(line.stock));
    if (it == quantities.end()) continue;
    if (line.quantity * it->second.second < it->second.first) amount += line.amount;
  }
  return {{Money(amount) / 2}};
}

// As published, the number of lines is null, and so every order is one group all the same.
Answer Q18(const Tables& t) {
  std::map<std::pair<int64_t, int64_t>, int64_t> amounts;  // by order and warehouse
  for (const FullLine& line : t.lines) {
    amounts[{line.order, t.data.WarehouseOfStock(line.stock)}] += line.amount;
  }
  Answer answer;
  for (const auto& [key, amount] : amounts) {
    if (amount <= 100'00) continue;
    const GtpcData::Order& order = t.orders[Tables::At(key.first)];
    answer.push_back({t.customers[Tables::At(order.customer)].last, order.customer, key.first,
                      TimeText(order.entry),
                      t.data.options().repaired ? AnswerValue(order.line_count)
                                                : AnswerValue(std::string("null")),
                      Money(amount)});
  }
  return answer;
}

Answer Q19(const Tables& t) {
  int64_t amount = 0;
  for (const FullLine& line : t.lines) {
    const GtpcData::Item& item = t.ItemOf(line.stock);
    const int64_t w = t.data.WarehouseOfStock(line.stock);
    const bool wanted = (Ends(item.data, "a") && (w == 1 || w == 2 || w == 3)) ||
                        (Ends(item.data, "b") && (w == 1 || w == 2 || w == 4)) ||
                        (Ends(item.data, "c") && (w == 1 || w == 5 || w == 3));
    if (wanted && line.quantity <= 10 && item.price >= 100) amount += line.amount;
  }
  return {{Money(amount)}};
}

Answer Q20(const Tables& t) {
  std::map<int64_t, int64_t> ordered;
  for (const FullLine& line : t.lines) {
    if (!Starts(t.ItemOf(line.stock).data, "co") || line.delivery <= SecondsOf(2010, 5, 24)) {
      continue;  // no delivery is between the 23rd of May and 2011
    }
    ordered[line.stock] += line.quantity;
  }
  std::set<std::pair<std::string, std::string>> suppliers;
  for (const auto& [stock, quantity] : ordered) {
    const GtpcData::Supplier* supplier = t.SupplierOf(stock);
    if (supplier == nullptr || 2 * t.stocks[Tables::At(stock)].quantity <= quantity) continue;
    if (Name(supplier->nation) == "TAIWAN") suppliers.insert({supplier->name, supplier->address});
  }
  Answer answer;
  for (const auto& [name, address] : suppliers) answer.push_back({name, address});
  return answer;
}

Answer Q21(const Tables& t) {
  std::map<int64_t, int64_t> last;  // delivery of each order
  for (const FullLine& line : t.lines) {
    last[line.order] = std::max(last[line.order], line.delivery);
  }
  std::map<std::string, int64_t> waiting;
  for (const FullLine& line : t.lines) {
    const GtpcData::Supplier* supplier = t.SupplierOf(line.stock);
    if (supplier == nullptr || Name(supplier->nation) != "GERMANY" ||
        line.delivery <= t.OrderOf(line).entry || line.delivery < last[line.order]) {
      continue;
    }
    ++waiting[supplier->name];
  }
  Answer answer;
  for (const auto& [name, n] : waiting) answer.push_back({name, n});
  return answer;
}

}  // namespace

Answer GtpcAnswer(const GtpcData& data, int query) {
  using Function = Answer (*)(const Tables&);
  // Every customer has an order: Q22 finds none.
  constexpr Function kAll[] = {
      Q1,  Q2,  Q3,  Q4,  Q5,  Q6,  Q7,  Q8,  Q9,  Q10, Q11,
      Q12, Q13, Q14, Q15, Q16, Q17, Q18, Q19, Q20, Q21, [](const Tables&) { return Answer(); }};
  return kAll[query - 1](Tables(data));
}

}  // namespace pulse::bench
