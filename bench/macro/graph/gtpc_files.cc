#include "bench/macro/graph/gtpc_files.h"

#include <fcntl.h>

#include <charconv>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "base/unique_fd.h"

namespace pulse::bench {
namespace {

constexpr size_t kPiece = size_t{1} << 20;

std::vector<GtpcColumn> Columns(std::initializer_list<GtpcColumn> first,
                                std::initializer_list<GtpcColumn> more = {}) {
  std::vector<GtpcColumn> all = {{"id", "int"}};
  all.insert(all.end(), first);
  all.insert(all.end(), more);
  return all;
}

const std::initializer_list<GtpcColumn> kAddress = {{"street_1", "string"},
                                                    {"street_2", "string"},
                                                    {"city", "string"},
                                                    {"state", "string"},
                                                    {"zip", "string"}};

void WriteAddress(const GtpcData::Address& address, CsvText* out) {
  out->Text(address.street_1)
      .Text(address.street_2)
      .Text(address.city)
      .Text(address.state)
      .Text(address.zip);
}

void AddSites(const GtpcData& data, std::vector<GtpcTable>* tables) {
  std::vector<GtpcColumn> columns = Columns({{"name", "string"}}, kAddress);
  columns.insert(columns.end(), {{"tax", "float"}, {"ytd", "float"}});
  const auto write = [](int64_t id, const GtpcData::Site& site, CsvText* out) {
    out->Int(id).Text(site.name);
    WriteAddress(site.address, out);
    out->Money(site.tax).Money(site.ytd);
  };
  tables->push_back(
      {"Warehouse", "", "", columns, data.warehouses(), [&data, write](int64_t id, CsvText* out) {
         write(id, data.WarehouseRow(id), out);
         out->End();
       }});
  columns.push_back({"next_o_id", "int"});
  const int64_t orders_each = data.orders() / data.districts();
  tables->push_back({"District", "", "", columns, data.districts(),
                     [&data, write, orders_each](int64_t id, CsvText* out) {
                       write(id, data.DistrictRow(id), out);
                       out->Int(orders_each + 1).End();
                     }});
}

void AddCustomers(const GtpcData& data, std::vector<GtpcTable>* tables) {
  std::vector<GtpcColumn> columns =
      Columns({{"first", "string"}, {"middle", "string"}, {"last", "string"}}, kAddress);
  columns.insert(columns.end(), {{"phone", "string"},
                                 {"since", "localdatetime"},
                                 {"credit", "string"},
                                 {"credit_lim", "float"},
                                 {"discount", "float"},
                                 {"balance", "float"},
                                 {"ytd_payment", "float"},
                                 {"payment_cnt", "int"},
                                 {"delivery_cnt", "int"},
                                 {"data", "string"}});
  tables->push_back(
      {"Customer", "", "", columns, data.customers(), [&data](int64_t id, CsvText* out) {
         const GtpcData::Customer c = data.CustomerRow(id);
         out->Int(id).Text(c.first).Text("OE").Text(c.last);
         WriteAddress(c.address, out);
         out->Text(c.phone).Time(c.since).Text(c.credit).Money(50'000'00);
         out->Money(c.discount).Money(c.balance).Money(10'00).Int(1).Int(0);
         out->Text(c.data).End();
       }});
}

void AddStocks(const GtpcData& data, std::vector<GtpcTable>* tables) {
  std::vector<GtpcColumn> columns = Columns({{"quantity", "int"}});
  for (int district = 1; district <= 10; ++district) {
    columns.push_back({absl::StrCat("dist_", district < 10 ? "0" : "", district), "string"});
  }
  columns.insert(columns.end(),
                 {{"ytd", "int"}, {"order_cnt", "int"}, {"remote_cnt", "int"}, {"data", "string"}});
  tables->push_back({"Stock", "", "", columns, data.stocks(), [&data](int64_t id, CsvText* out) {
                       const GtpcData::Stock stock = data.StockRow(id);
                       out->Int(id).Int(stock.quantity);
                       for (const std::string& text : stock.district_texts) out->Text(text);
                       out->Int(stock.ytd).Int(stock.order_count).Int(0).Text(stock.data).End();
                     }});
}

void AddOrders(const GtpcData& data, std::vector<GtpcTable>* tables) {
  tables->push_back({"Order", "", "",
                     Columns({{"entry_d", "localdatetime"},
                              {"carrier_id", "int"},
                              {"ol_cnt", "int"},
                              {"all_local", "int"},
                              {"new_order", "int"}}),
                     data.orders(), [&data](int64_t id, CsvText* out) {
                       const GtpcData::Order o = data.OrderRow(id);
                       out->Int(id).Time(o.entry).Int(o.carrier).Int(o.line_count).Int(1);
                       out->Int(o.is_new ? 1 : 0).End();
                     }});
  tables->push_back({"OrderLine", "", "",
                     Columns({{"number", "int"},
                              {"delivery_d", "localdatetime"},
                              {"quantity", "int"},
                              {"amount", "float"},
                              {"dist_info", "string"}}),
                     data.orders(), [&data](int64_t order, CsvText* out) {
                       for (int64_t id = data.first_line(order); id < data.first_line(order + 1);
                            ++id) {
                         const GtpcData::Line line = data.LineRow(order, id);
                         out->Int(id).Int(line.number).Time(line.delivery).Int(line.quantity);
                         out->Money(line.amount).Text(line.text).End();
                       }
                     }});
}

void AddOtherNodes(const GtpcData& data, std::vector<GtpcTable>* tables) {
  tables->push_back(
      {"Item", "", "",
       Columns({{"im_id", "int"}, {"name", "string"}, {"price", "float"}, {"data", "string"}}),
       data.items(), [&data](int64_t id, CsvText* out) {
         const GtpcData::Item item = data.ItemRow(id);
         out->Int(id).Int(item.image).Text(item.name).Money(item.price);
         out->Text(item.data).End();
       }});
  tables->push_back({"Supplier", "", "",
                     Columns({{"name", "string"},
                              {"address", "string"},
                              {"phone", "string"},
                              {"acctbal", "float"},
                              {"comment", "string"}}),
                     data.suppliers(), [&data](int64_t id, CsvText* out) {
                       const GtpcData::Supplier s = data.SupplierRow(id);
                       out->Int(id).Text(s.name).Text(s.address).Text(s.phone).Money(s.balance);
                       out->Text(s.comment).End();
                     }});
  const auto names = Columns({{"name", "string"}, {"comment", "string"}});
  tables->push_back(
      {"Nation", "", "", names, GtpcData::nations(), [&data](int64_t id, CsvText* out) {
         out->Int(id).Text(GtpcData::NationName(id)).Text(data.NationComment(id)).End();
       }});
  tables->push_back(
      {"Region", "", "", names, GtpcData::regions(), [&data](int64_t id, CsvText* out) {
         out->Int(id).Text(GtpcData::RegionName(id)).Text(data.RegionComment(id)).End();
       }});
}

void AddEdges(const GtpcData& data, int64_t last_order, std::vector<GtpcTable>* tables) {
  const auto add = [tables](std::string source, std::string type, std::string target, int64_t units,
                            std::function<void(int64_t, CsvText*)> write) {
    tables->push_back({std::move(type),
                       std::move(source),
                       std::move(target),
                       {{"from", "int"}, {"to", "int"}},
                       units,
                       std::move(write)});
  };
  add("Warehouse", "covers", "District", data.districts(),
      [&data](int64_t id, CsvText* out) { out->Int(data.WarehouseOfDistrict(id)).Int(id).End(); });
  add("District", "serves", "Customer", data.customers(),
      [&data](int64_t id, CsvText* out) { out->Int(data.DistrictOfCustomer(id)).Int(id).End(); });
  add("Customer", "isLocatedIn", "Nation", data.customers(), [&data](int64_t id, CsvText* out) {
    out->Int(id).Int(data.NationOfCustomer(data.CustomerRow(id, false))).End();
  });
  add("Supplier", "isLocatedIn", "Nation", data.suppliers(),
      [&data](int64_t id, CsvText* out) { out->Int(id).Int(data.SupplierRow(id).nation).End(); });
  add("Nation", "isPartOf", "Region", GtpcData::nations(),
      [](int64_t id, CsvText* out) { out->Int(id).Int(GtpcData::RegionOfNation(id)).End(); });
  add("Item", "hasStock", "Stock", data.stocks(),
      [&data](int64_t id, CsvText* out) { out->Int(data.ItemOfStock(id)).Int(id).End(); });
  add("Warehouse", "hasStock", "Stock", data.stocks(),
      [&data](int64_t id, CsvText* out) { out->Int(data.WarehouseOfStock(id)).Int(id).End(); });
  add("Stock", "hasSupplier", "Supplier", data.stocks(),
      [&data](int64_t id, CsvText* out) { out->Int(id).Int(data.SupplierOfStock(id)).End(); });
  add("Customer", "hasPlaced", "Order", data.orders(),
      [&data](int64_t id, CsvText* out) { out->Int(data.OrderRow(id).customer).Int(id).End(); });
  const int64_t orders = last_order == 0 ? data.orders() : last_order;
  add("Order", "contains", "OrderLine", orders, [&data](int64_t order, CsvText* out) {
    for (int64_t id = data.first_line(order); id < data.first_line(order + 1); ++id) {
      out->Int(order).Int(id).End();
    }
  });
  add("OrderLine", "hasStock", "Stock", orders, [&data](int64_t order, CsvText* out) {
    for (int64_t id = data.first_line(order); id < data.first_line(order + 1); ++id) {
      out->Int(id).Int(data.LineRow(order, id).stock).End();
    }
  });
}

}  // namespace

CsvText& CsvText::Int(int64_t value) {
  Separate();
  char text[24];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  bytes_.append(text, end);
  return *this;
}

CsvText& CsvText::Text(std::string_view text) {
  Separate();
  bytes_ += text;
  return *this;
}

void CsvText::End() {
  bytes_ += '\n';
  first_ = true;
}

std::string GtpcTable::FileName() const {
  return is_edge() ? absl::StrCat(source, "_", name, "_", target, ".csv")
                   : absl::StrCat(name, ".csv");
}

std::vector<GtpcTable> GtpcTables(const GtpcData& data, int64_t last_order) {
  std::vector<GtpcTable> tables;
  AddSites(data, &tables);
  AddCustomers(data, &tables);
  AddOrders(data, &tables);
  AddStocks(data, &tables);
  AddOtherNodes(data, &tables);
  AddEdges(data, last_order, &tables);
  return tables;
}

absl::StatusOr<uint64_t> WriteGtpcCsv(const std::vector<GtpcTable>& tables,
                                      const std::string& directory, const WriteProgress& written) {
  uint64_t all = 0;
  for (const GtpcTable& table : tables) {
    const std::string path = absl::StrCat(directory, "/", table.FileName());
    const UniqueFd fd = OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (!fd.valid()) return ErrnoError(errno, "creating", path);
    CsvText text;
    for (const GtpcColumn& column : table.columns) text.Text(column.name);
    text.End();
    uint64_t offset = 0;
    for (int64_t unit = 1; unit <= table.units; ++unit) {
      table.write(unit, &text);
      if (text.bytes().size() < kPiece && unit < table.units) continue;
      PULSE_RETURN_IF_ERROR(WriteAt(fd.get(), text.bytes(), offset, path));
      offset += text.bytes().size();
      text.bytes().clear();
      if (written) written(all + offset);
    }
    all += offset;
  }
  return all;
}

graph::LoadOptions GtpcLoad(const std::vector<GtpcTable>& tables, const std::string& directory,
                            bool repaired) {
  graph::LoadOptions options;
  for (const GtpcTable& table : tables) {
    const std::string path = absl::StrCat(directory, "/", table.FileName());
    if (table.is_edge()) {
      options.edges.push_back({table.name, path, table.source, table.target});
      continue;
    }
    options.nodes.push_back({table.name, path});
    for (const GtpcColumn& column : table.columns) {
      if (column.name != "id") options.types[column.name] = column.type;
    }
  }
  // Orders count money, stocks pieces: there types are what the values are.
  options.types.erase("ytd");
  if (!repaired) options.reject_path = absl::StrCat(directory, "/rejected.txt");
  return options;
}

nlohmann::json GtpcSchema(const std::vector<GtpcTable>& tables) {
  nlohmann::json all = nlohmann::json::array();
  for (const GtpcTable& table : tables) {
    nlohmann::json columns = nlohmann::json::array();
    for (const GtpcColumn& column : table.columns) {
      columns.push_back({{"name", column.name}, {"type", column.type}});
    }
    nlohmann::json one = {{"name", table.name}, {"file", table.FileName()}, {"columns", columns}};
    if (table.is_edge()) {
      one["source"] = table.source;
      one["target"] = table.target;
    }
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace pulse::bench
