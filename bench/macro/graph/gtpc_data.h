// The data of GTPC, a graph benchmark for transactions and analytics (TPC-C and CH-benCHmark as a
// property graph), after its description; section IV of the DSA paper measures with it. Every row
// is computed from the seed and its number, so that nobody has to keep them: the loader's files and
// the answers that queries are checked against come from the same calls.
//
// Two variants. As published: stocks address suppliers 1 to N as 0 to N-1, so that relationships
// dangle; delivered lines have an amount of 0; every quantity is 5 and no stock counts its orders.
// Repaired: none of that, and balances include what was delivered.
//
// Ownership: none. Threads: any, once it is made. Nothing blocks. Numbers of rows begin with 1.
// Money is in hundredths, time in seconds since 1970.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pulse::bench {

struct GtpcOptions {
  uint32_t warehouses = 1;
  bool repaired = true;
  // For tests: small tables, and texts of few letters so that every query still finds something.
  bool tiny = false;
  uint64_t seed = 1;
};

inline constexpr int64_t kNoDelivery = 0;

class GtpcData {
 public:
  struct Address {
    std::string street_1, street_2, city, state, zip;
  };
  struct Item {
    int64_t image = 0;
    std::string name, data;
    int64_t price = 0;
  };
  struct Site {  // a warehouse or a district
    std::string name;
    Address address;
    int64_t tax = 0, ytd = 0;
  };
  struct Customer {
    std::string first, last, phone, credit, data;
    Address address;
    int64_t since = 0, discount = 0, balance = 0;
  };
  struct Stock {
    int64_t quantity = 0, ytd = 0, order_count = 0;
    std::vector<std::string> district_texts;
    std::string data;
  };
  struct Order {
    int64_t customer = 0, entry = 0, carrier = 0, line_count = 0;
    bool is_new = false;  // not delivered: without a carrier
  };
  struct Line {
    int64_t number = 0, delivery = kNoDelivery, quantity = 0, amount = 0;
    int64_t stock = 0;
    std::string text;
  };
  struct Supplier {
    std::string name, address, phone, comment;
    int64_t balance = 0, nation = 0;
  };

  explicit GtpcData(const GtpcOptions& options);

  const GtpcOptions& options() const { return options_; }
  int64_t warehouses() const { return options_.warehouses; }
  int64_t districts() const { return warehouses() * districts_each_; }
  int64_t customers() const { return districts() * customers_each_; }
  int64_t items() const { return items_; }
  int64_t stocks() const { return warehouses() * items_; }
  int64_t orders() const { return customers(); }  // one for each customer
  int64_t lines() const { return first_line_.back() - 1; }
  int64_t suppliers() const { return suppliers_; }
  static int64_t nations();
  static int64_t regions();

  Item ItemRow(int64_t id) const;
  Site WarehouseRow(int64_t id) const;
  Site DistrictRow(int64_t id) const;
  // A customer's texts are most of its row; queries do without.
  Customer CustomerRow(int64_t id, bool with_data = true) const;
  Stock StockRow(int64_t id, bool with_texts = true) const;
  Order OrderRow(int64_t id) const;
  // `order` contains line `id`.
  Line LineRow(int64_t order, int64_t id) const;
  Supplier SupplierRow(int64_t id) const;
  std::string NationComment(int64_t id) const;
  std::string RegionComment(int64_t id) const;

  int64_t WarehouseOfDistrict(int64_t district) const {
    return (district - 1) / districts_each_ + 1;
  }
  int64_t DistrictOfCustomer(int64_t customer) const {
    return (customer - 1) / customers_each_ + 1;
  }
  int64_t WarehouseOfStock(int64_t stock) const { return (stock - 1) / items_ + 1; }
  int64_t ItemOfStock(int64_t stock) const { return (stock - 1) % items_ + 1; }
  // What its relationship says: in the published variant perhaps 0, which no supplier has.
  int64_t SupplierOfStock(int64_t stock) const;
  // By the first letter of the state.
  int64_t NationOfCustomer(const Customer& customer) const;
  static std::string_view NationName(int64_t nation);
  static int64_t RegionOfNation(int64_t nation);
  static std::string_view RegionName(int64_t region);

  // The lines of an order are first_line(order) to first_line(order + 1) - 1.
  int64_t first_line(int64_t order) const { return first_line_[static_cast<size_t>(order - 1)]; }

 private:
  // Of a warehouse or a district, by its table's number.
  Site SiteRow(int table, int64_t id, int64_t ytd) const;

  const GtpcOptions options_;
  const int64_t districts_each_, customers_each_, items_, suppliers_;
  const std::string_view letters_;
  std::vector<int64_t> customer_of_order_;
  std::vector<int64_t> first_line_;
  // Repaired: what the orders come to.
  std::vector<uint16_t> orders_of_stock_, quantity_of_stock_;
  std::vector<int64_t> delivered_to_;
};

// "1.05"; "2011-03-04T05:06:07".
std::string MoneyText(int64_t hundredths);
std::string TimeText(int64_t seconds);
int64_t SecondsOf(int year, unsigned month, unsigned day);

}  // namespace pulse::bench
