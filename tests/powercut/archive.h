// Saves and loads plain values, for runs that are to be repeated later or elsewhere. A type takes
// part by a member template Visit(Archive&) that passes its members on.
//
// The format is this machine's, and for this program only. Loading anything but what was saved
// fails cleanly: Failed() is true and the values mean nothing.
#pragma once

#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace pulse::powercut {

class Archive {
 public:
  enum Mode { kSave, kLoad };
  Archive(const std::string& path, Mode mode)
      : saving_(mode == kSave),
        file_(path, std::ios::binary | (saving_ ? std::ios::out | std::ios::trunc : std::ios::in)) {
  }

  template <typename... T>
  void operator()(T&... values) {
    (One(values), ...);
  }
  bool Failed() {
    if (saving_) file_.flush();
    return !file_.good();
  }

 private:
  template <typename T>
  void One(T& v) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      Raw(&v, sizeof(v));
    } else {
      v.Visit(*this);
    }
  }
  void One(std::string& s) {
    s.resize(Size(s.size()));
    Raw(s.data(), s.size());
  }
  template <typename A, typename B>
  void One(std::pair<A, B>& p) {
    (*this)(p.first, p.second);
  }
  template <typename T>
  void One(std::vector<T>& v) {
    if (size_t n = Size(v.size()); saving_) {
      for (T& each : v) One(each);
    } else {
      v.clear();
      for (; n > 0 && file_.good(); --n) One(v.emplace_back());
    }
  }
  template <typename K, typename V>
  void One(std::map<K, V>& m) {
    if (size_t n = Size(m.size()); saving_) {
      for (auto& [key, value] : m) {
        K copy = key;
        (*this)(copy, value);
      }
    } else {
      m.clear();
      for (; n > 0 && file_.good(); --n) {
        K key;
        One(key);
        One(m[key]);
      }
    }
  }
  size_t Size(size_t size) {
    Raw(&size, sizeof(size));
    if (!file_.good() || size > kMaxSize) {
      file_.setstate(std::ios::failbit);
      return 0;
    }
    return size;
  }
  void Raw(void* data, size_t n) {
    if (saving_) {
      file_.write(static_cast<const char*>(data), static_cast<std::streamsize>(n));
    } else if (!file_.read(static_cast<char*>(data), static_cast<std::streamsize>(n))) {
      std::memset(data, 0, n);
    }
  }

  static constexpr size_t kMaxSize = size_t{1} << 30;
  const bool saving_;
  std::fstream file_;
};

}  // namespace pulse::powercut
