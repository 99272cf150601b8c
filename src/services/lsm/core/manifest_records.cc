#include "services/lsm/core/manifest_records.h"

#include <algorithm>

#include "base/crc32c.h"

namespace pulse::lsm {
namespace {

constexpr size_t kBlock = 32768;
constexpr size_t kHeader = 7;             // checksum (4), length (2), type (1)
constexpr size_t kRecyclableHeader = 11;  // ... and log number (4)
// Larger than any MANIFEST; what claims more is none.
constexpr size_t kMaxRecord = size_t{1} << 30;

// Types of a fragment. The recyclable ones follow in the same order. All others are for write-ahead
// logs.
enum FragmentType : unsigned {
  kFull = 1,
  kFirst = 2,
  kMiddle = 3,
  kLast = 4,
  kRecyclableFull = 5,
  kRecyclableLast = 8,
};

// Tags of a VersionEdit's fields.
enum Tag : uint32_t {
  kComparator = 1,
  kLogNumber = 2,
  kNextFileNumber = 3,
  kLastSequence = 4,
  kCompactCursor = 5,
  kDeletedFile = 6,
  kNewFile = 7,
  kPrevLogNumber = 9,
  kMinLogNumberToKeep = 10,
  kNewFile2 = 100,
  kNewFile3 = 102,
  kNewFile4 = 103,
  kColumnFamily = 200,
  kColumnFamilyAdd = 201,
  kColumnFamilyDrop = 202,
  kMaxColumnFamily = 203,
  kInAtomicGroup = 300,
  kBlobFileAddition = 400,
  kBlobFileGarbage = 401,
  kSafeIgnore = 1 << 13,  // this bit says: the length follows, and readers may skip it
  kOldBlobFileAddition = kSafeIgnore + 2,
  kOldBlobFileGarbage = kSafeIgnore + 3,
  kOldWalAddition = kSafeIgnore + 4,
  kOldWalDeletion = kSafeIgnore + 5,
  kSubcompactionProgress = kSafeIgnore + 10,
};

// In the custom fields of a new file.
constexpr uint32_t kCustomEnd = 1;
constexpr uint32_t kCustomOldestBlob = 4;
constexpr uint32_t kCustomPathId = 65;
// ... and of a blob file.
constexpr uint32_t kBlobCustomEnd = 0;
// Readers that do not know a custom field with this bit must not go on.
constexpr uint32_t kCustomMandatory = 1 << 6;

// Reads fields from the front; after the first that is not there, ok() is false.
class Fields {
 public:
  explicit Fields(absl::string_view data) : data_(data) {}

  bool ok() const { return ok_; }
  bool empty() const { return data_.empty(); }

  uint64_t Varint64() { return Varint(10); }
  uint32_t Varint32() { return static_cast<uint32_t>(Varint(5)); }
  absl::string_view Bytes() {
    const uint32_t n = Varint32();
    if (n > data_.size()) ok_ = false;
    const absl::string_view bytes = data_.substr(0, n);
    data_.remove_prefix(bytes.size());
    return bytes;
  }

 private:
  uint64_t Varint(int max_bytes) {
    uint64_t v = 0;
    for (int i = 0; i < max_bytes && !data_.empty(); ++i) {
      const uint8_t byte = static_cast<uint8_t>(data_[0]);
      data_.remove_prefix(1);
      v |= uint64_t{byte & 0x7fu} << (7 * i);
      if (byte < 0x80) return v;
    }
    ok_ = false;
    return 0;
  }

  absl::string_view data_;
  bool ok_ = true;
};

// Tag, length and value, up to `end`. `known`: the one mandatory field that is understood.
// `oldest_blob`, if given, receives that field.
bool TakeCustomFields(Fields* in, uint32_t end, uint32_t known, uint64_t* oldest_blob) {
  while (in->ok()) {
    const uint32_t tag = in->Varint32();
    if (!in->ok()) break;
    if (tag == end) return true;
    if ((tag & kCustomMandatory) != 0 && tag != known) return false;
    const absl::string_view value = in->Bytes();
    if (oldest_blob != nullptr && tag == kCustomOldestBlob) {
      Fields field(value);
      *oldest_blob = field.Varint64();
      if (!field.ok()) return false;
    }
  }
  return false;
}

// Everything of a new table after its tag.
bool TakeNewFile(uint32_t tag, Fields* in, FileEdits* edits) {
  FileEdits::Table table;
  in->Varint32();  // level
  table.number = in->Varint64();
  if (tag == kNewFile3) in->Varint32();  // path
  table.size = in->Varint64();
  in->Bytes();  // smallest key
  in->Bytes();  // largest key
  if (tag != kNewFile) {
    in->Varint64();  // smallest sequence number
    in->Varint64();  // largest
  }
  if (tag == kNewFile4 && !TakeCustomFields(in, kCustomEnd, kCustomPathId, &table.oldest_blob)) {
    return false;
  }
  if (in->ok()) edits->tables.push_back(table);
  return in->ok();
}

// Everything of a blob file, or of garbage in one, after its tag.
bool TakeBlob(Fields* in, bool has_checksum, std::vector<FileEdits::Blob>* blobs) {
  FileEdits::Blob blob;
  blob.number = in->Varint64();
  blob.count = in->Varint64();
  blob.bytes = in->Varint64();
  if (has_checksum) {
    in->Bytes();  // its method
    in->Bytes();
  }
  if (!TakeCustomFields(in, kBlobCustomEnd, 0, nullptr)) return false;
  blobs->push_back(blob);
  return true;
}

bool TakeField(Fields* in, FileEdits* edits) {
  const uint32_t tag = in->Varint32();
  if (!in->ok()) return false;
  switch (tag) {
    case kComparator:
    case kColumnFamilyAdd:
      in->Bytes();
      break;
    case kLogNumber:
    case kNextFileNumber:
    case kLastSequence:
    case kPrevLogNumber:
    case kMinLogNumberToKeep:
      in->Varint64();
      break;
    case kColumnFamily:
      edits->family = in->Varint32();
      break;
    case kMaxColumnFamily:
      in->Varint32();
      break;
    case kInAtomicGroup:
      edits->in_group = true;
      edits->group_left = in->Varint32();
      break;
    case kCompactCursor:
      in->Varint32();
      in->Bytes();
      break;
    case kDeletedFile:
      in->Varint32();  // level
      edits->deleted.push_back(in->Varint64());
      break;
    case kColumnFamilyDrop:
      edits->drops_family = true;
      break;
    case kNewFile:
    case kNewFile2:
    case kNewFile3:
    case kNewFile4:
      return TakeNewFile(tag, in, edits);
    case kBlobFileAddition:
    case kOldBlobFileAddition:
      return TakeBlob(in, /*has_checksum=*/true, &edits->blobs);
    case kBlobFileGarbage:
    case kOldBlobFileGarbage:
      return TakeBlob(in, /*has_checksum=*/false, &edits->garbage);
    case kOldWalAddition:  // no length, and not written by any version that is served
    case kOldWalDeletion:
    case kSubcompactionProgress:  // ignorable, but it names outputs
      return false;
    default:
      if ((tag & kSafeIgnore) == 0) return false;
      in->Bytes();
  }
  return in->ok();
}

}  // namespace

bool DecodeFileEdits(absl::string_view record, FileEdits* edits) {
  Fields in(record);
  while (!in.empty()) {
    if (!TakeField(&in, edits)) return false;
  }
  return true;
}

bool FilesAddedBy(absl::string_view record, std::vector<uint64_t>* added) {
  FileEdits edits;
  const bool understood = DecodeFileEdits(record, &edits);
  for (const FileEdits::Table& table : edits.tables) added->push_back(table.number);
  for (const FileEdits::Blob& blob : edits.blobs) added->push_back(blob.number);
  return understood;
}

ManifestRecords::ManifestRecords(uint64_t offset) : left_in_block_(kBlock - offset % kBlock) {}

bool ManifestRecords::Append(absl::string_view bytes, std::vector<uint64_t>* added) {
  return AppendRecords(bytes,
                       [added](absl::string_view record) { return FilesAddedBy(record, added); });
}

bool ManifestRecords::AppendRecords(absl::string_view bytes, TakeRecord take) {
  while (understood_ && !bytes.empty()) {
    if (left_in_block_ == 0) left_in_block_ = kBlock;
    size_t n = 0;
    if (skip_ > 0) {
      n = std::min(skip_, bytes.size());
      skip_ -= n;
    } else if (in_fragment_) {
      n = std::min(fragment_left_, bytes.size());
      record_.append(bytes.data(), n);
      crc_ = ExtendCrc32c(crc_, bytes.data(), n);
      fragment_left_ -= n;
    } else {
      if (header_size_ == 0) {
        if (left_in_block_ < kHeader) {  // too short for a header: padding
          skip_ = left_in_block_;
          continue;
        }
        header_size_ = kHeader;
      }
      n = std::min(header_size_ - header_.size(), bytes.size());
      header_.append(bytes.data(), n);
    }
    bytes.remove_prefix(n);
    left_in_block_ -= n;
    if (header_size_ != 0 && header_.size() == header_size_) understood_ = TakeHeader();
    if (in_fragment_ && fragment_left_ == 0) understood_ = TakeFragment(take);
  }
  return understood_ && verified_;
}

// A header is complete, perhaps but for the log number that a recyclable one has.
bool ManifestRecords::TakeHeader() {
  const auto byte = [this](size_t i) { return static_cast<uint8_t>(header_[i]); };
  const size_t length = byte(4) | size_t{byte(5)} << 8;
  type_ = byte(6);
  if (type_ >= kRecyclableFull && type_ <= kRecyclableLast && header_size_ == kHeader) {
    header_size_ = kRecyclableHeader;
    return left_in_block_ >= kRecyclableHeader - kHeader;
  }
  const bool zeros = std::all_of(header_.begin(), header_.end(), [](char c) { return c == '\0'; });
  stored_crc_ = uint32_t{byte(0)} | uint32_t{byte(1)} << 8 | uint32_t{byte(2)} << 16 |
                uint32_t{byte(3)} << 24;
  crc_ = Crc32c(header_.data() + 6, header_.size() - 6);  // covers the header from the type on
  header_.clear();
  header_size_ = 0;
  if (zeros && left_in_block_ < kRecyclableHeader - kHeader) {
    // Where headers have 11 bytes, the padding can be as long as a short header.
    skip_ = left_in_block_;
    return true;
  }
  if (length > left_in_block_) return false;
  if (type_ >= kRecyclableFull && type_ <= kRecyclableLast) type_ -= kRecyclableFull - kFull;
  const bool begins = type_ == kFull || type_ == kFirst;
  if (!begins && type_ != kMiddle && type_ != kLast) return false;
  if (begins == in_record_ || record_.size() + length > kMaxRecord) return false;
  in_record_ = true;
  in_fragment_ = true;
  fragment_left_ = length;
  return true;
}

bool ManifestRecords::TakeFragment(TakeRecord take) {
  in_fragment_ = false;
  if (MaskedCrc32c(crc_) != stored_crc_) return false;
  verified_ = true;
  if (type_ != kFull && type_ != kLast) return true;
  in_record_ = false;
  const bool understood = take(record_);
  record_.clear();
  return understood;
}

}  // namespace pulse::lsm
