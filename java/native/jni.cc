// The native methods of org.pulsedb.PulseNative.
#include <jni.h>

#include <string>
#include <vector>

#include "java/native/attach.h"

namespace {

using pulse::java::Attach;
using pulse::java::Attached;

constexpr size_t kErrorSize = 4096;

// Texts are byte[] on the way here and back: JNI's own functions for strings have another UTF-8,
// with six bytes for a character beyond U+FFFF.
std::string TextOf(JNIEnv* env, jbyteArray bytes) {
  std::string text(static_cast<size_t>(env->GetArrayLength(bytes)), '\0');
  env->GetByteArrayRegion(bytes, 0, static_cast<jsize>(text.size()),
                          reinterpret_cast<jbyte*>(text.data()));
  return text;
}

// Where something of it cannot be made, an exception that says so is pending.
void Throw(JNIEnv* env, const std::string& what) {
  if (env->ExceptionCheck()) return;
  const auto size = static_cast<jsize>(what.size());
  const jbyteArray bytes = env->NewByteArray(size);
  if (bytes == nullptr) return;
  env->SetByteArrayRegion(bytes, 0, size, reinterpret_cast<const jbyte*>(what.data()));
  const jclass type = env->FindClass("org/pulsedb/PulseNative");
  if (type == nullptr) return;
  const jmethodID error =
      env->GetStaticMethodID(type, "error", "([B)Lorg/rocksdb/RocksDBException;");
  if (error == nullptr) return;
  const auto made = static_cast<jthrowable>(env->CallStaticObjectMethod(type, error, bytes));
  if (made != nullptr) env->Throw(made);
}

// Null: an exception is pending. The plug-ins are beside this library.
const PulseJavaApi* Api(JNIEnv* env) {
  const Attached attached = Attach(pulse::java::OwnDirectory());
  if (attached.api == nullptr) Throw(env, "PulseDB cannot attach to RocksDB: " + attached.error);
  return attached.api;
}

}  // namespace

extern "C" {

JNIEXPORT void JNICALL Java_org_pulsedb_PulseNative_attach(JNIEnv* env, jclass) { Api(env); }

JNIEXPORT jlong JNICALL Java_org_pulsedb_PulseNative_open(JNIEnv* env, jclass, jbyteArray uri) {
  const PulseJavaApi* const api = Api(env);
  if (api == nullptr) return 0;
  const std::string text = TextOf(env, uri);
  if (text.find('\0') != std::string::npos) {
    Throw(env, "the URI has a zero byte");
    return 0;
  }
  char error[kErrorSize] = "";
  void* opened = nullptr;
  if (api->open_env(text.c_str(), &opened, error, sizeof(error)) != 0) Throw(env, error);
  return reinterpret_cast<jlong>(opened);
}

JNIEXPORT void JNICALL Java_org_pulsedb_PulseNative_close(JNIEnv* env, jclass, jlong opened) {
  if (const PulseJavaApi* const api = pulse::java::AttachedApi(); api != nullptr) {
    api->close_env(reinterpret_cast<void*>(opened));
  }
}

JNIEXPORT void JNICALL Java_org_pulsedb_PulseNative_place(JNIEnv* env, jclass, jlong options) {
  const PulseJavaApi* const api = Api(env);
  if (api == nullptr) return;
  char error[kErrorSize] = "";
  if (api->place(reinterpret_cast<void*>(options), error, sizeof(error)) != 0) Throw(env, error);
}

JNIEXPORT void JNICALL Java_org_pulsedb_PulseNative_placeFamilies(JNIEnv* env, jclass,
                                                                  jlong db_options,
                                                                  jobjectArray names,
                                                                  jlongArray options) {
  const PulseJavaApi* const api = Api(env);
  if (api == nullptr) return;
  const auto families = static_cast<size_t>(env->GetArrayLength(options));
  std::vector<jlong> handles(families);
  env->GetLongArrayRegion(options, 0, static_cast<jsize>(families), handles.data());
  std::vector<std::string> texts(families);
  std::vector<const char*> pointers(families);
  std::vector<void*> natives(families);
  for (size_t i = 0; i < families; ++i) {
    const auto name =
        static_cast<jbyteArray>(env->GetObjectArrayElement(names, static_cast<jsize>(i)));
    if (name == nullptr) {
      Throw(env, "a column family has no name");
      return;
    }
    texts[i] = TextOf(env, name);
    env->DeleteLocalRef(name);
    if (texts[i].find('\0') != std::string::npos) {
      Throw(env, "PulseDB cannot place a column family with a zero byte in its name");
      return;
    }
    pointers[i] = texts[i].c_str();
    natives[i] = reinterpret_cast<void*>(handles[i]);
  }
  char error[kErrorSize] = "";
  if (api->place_families(reinterpret_cast<void*>(db_options), pointers.data(), natives.data(),
                          families, error, sizeof(error)) != 0) {
    Throw(env, error);
  }
}

JNIEXPORT void JNICALL Java_org_pulsedb_PulseNative_compress(JNIEnv*, jclass, jlong opened,
                                                             jlong options) {
  const PulseJavaApi* const api = pulse::java::AttachedApi();
  if (api == nullptr) return;  // then nothing was opened
  api->compress(reinterpret_cast<void*>(opened), reinterpret_cast<void*>(options));
}

// Names and values in turn.
JNIEXPORT jobjectArray JNICALL Java_org_pulsedb_PulseNative_counters(JNIEnv* env, jclass,
                                                                     jlong opened) {
  const PulseJavaApi* const api = pulse::java::AttachedApi();
  if (api == nullptr) return nullptr;  // then nothing was opened
  std::vector<PulseJavaCounter> counters(256);
  const size_t there =
      api->counters(reinterpret_cast<void*>(opened), counters.data(), counters.size());
  if (there < counters.size()) counters.resize(there);
  const jobjectArray result = env->NewObjectArray(static_cast<jsize>(counters.size() * 2),
                                                  env->FindClass("java/lang/String"), nullptr);
  if (result == nullptr) return nullptr;
  jsize at = 0;
  for (const PulseJavaCounter& counter : counters) {
    for (const std::string& text : {std::string(counter.name), std::to_string(counter.value)}) {
      const jstring made = env->NewStringUTF(text.c_str());
      if (made == nullptr) return nullptr;
      env->SetObjectArrayElement(result, at++, made);
      env->DeleteLocalRef(made);
    }
  }
  return result;
}
}
