// ZstdTest.java: a JNI library that is linked with the system's zstd, as codecs of other systems
// are.
#include <dlfcn.h>
#include <jni.h>
#include <zstd.h>

#include <cstring>
#include <string>

extern "C" JNIEXPORT jstring JNICALL Java_org_pulsedb_ZstdTest_wrong(JNIEnv* env, jclass) {
  const auto text = [&](const char* what) { return env->NewStringUTF(what); };
  if (dlsym(RTLD_DEFAULT, "_ZN7rocksdb3Env7DefaultEv") != nullptr) {
    return text("RocksDB's names are global");
  }
  Dl_info own{};
  if (dladdr(reinterpret_cast<void*>(&ZSTD_compressStream2), &own) == 0 ||
      std::strstr(own.dli_fname, "libzstd") == nullptr) {
    return text("zstd's functions are those of another library");
  }
  std::string plain(1 << 20, 'x'), packed(ZSTD_compressBound(plain.size()), 0),
      again(plain.size(), 0);
  for (size_t i = 0; i < plain.size(); i += 7) plain[i] = static_cast<char>(i * 31 >> 3);
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_inBuffer in{plain.data(), plain.size(), 0};
  ZSTD_outBuffer out{packed.data(), packed.size(), 0};
  const size_t left = ZSTD_compressStream2(context, &out, &in, ZSTD_e_end);
  ZSTD_freeCCtx(context);
  if (left != 0) return text("the stream did not end");
  const size_t n = ZSTD_decompress(again.data(), again.size(), packed.data(), out.pos);
  return n == plain.size() && again == plain ? nullptr : text("other bytes came back");
}
