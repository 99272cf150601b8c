// The JVM agent, for programs that cannot be changed: java -agentpath:libpulse_java.so, with
// PULSE_URI set. As the JVM binds the first native method of a class of RocksDB's, its library has
// just been loaded: the plug-in is attached and puts RocksDB's default Env on PULSE_URI before
// anything is opened.
#include <jvmti.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "java/native/attach.h"

namespace {

std::once_flag once;

void Say(const char* what, const char* more) { std::fprintf(stderr, "pulse: %s%s\n", what, more); }

// Nothing falls back: a program whose databases are not where its environment says ends here.
void End(const std::string& why) {
  Say("PULSE_URI is set, and PulseDB cannot attach to RocksDB: ", why.c_str());
  std::_Exit(1);
}

bool IsOfRocksDb(jvmtiEnv* jvmti, JNIEnv* jni, jmethodID method) {
  jclass type = nullptr;
  char* signature = nullptr;
  if (jvmti->GetMethodDeclaringClass(method, &type) != JVMTI_ERROR_NONE) return false;
  const bool known = jvmti->GetClassSignature(type, &signature, nullptr) == JVMTI_ERROR_NONE;
  const bool is = known && std::strncmp(signature, "Lorg/rocksdb/", 13) == 0;
  if (known) jvmti->Deallocate(reinterpret_cast<unsigned char*>(signature));
  if (jni != nullptr) jni->DeleteLocalRef(type);
  return is;
}

void JNICALL OnBind(jvmtiEnv* jvmti, JNIEnv* jni, jthread, jmethodID method, void*, void**) {
  if (!IsOfRocksDb(jvmti, jni, method)) return;
  // Looked at each time: another class loader may load another library of RocksJava's later.
  const auto result = pulse::java::Attach(pulse::java::OwnDirectory());
  if (result.api == nullptr) End(result.error);
  // Other threads wait: none opens a database before.
  std::call_once(once, [&result] { result.api->install_default_env(); });
}

}  // namespace

extern "C" JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM* vm, char*, void*) {
  const char* uri = secure_getenv("PULSE_URI");
  if (uri == nullptr && std::getenv("PULSE_URI") != nullptr) {
    Say("PULSE_URI is set, and counts for nothing in a JVM with privileges that its user lacks",
        "");
    return JNI_ERR;
  }
  if (uri == nullptr || *uri == '\0') {
    Say("the agent has nothing to do: PULSE_URI is not set", "");
    return JNI_OK;
  }
  jvmtiEnv* jvmti = nullptr;
  if (vm->GetEnv(reinterpret_cast<void**>(&jvmti), JVMTI_VERSION_1_2) != JNI_OK) {
    Say("this JVM has no JVMTI 1.2", "");
    return JNI_ERR;
  }
  jvmtiCapabilities capabilities{};
  capabilities.can_generate_native_method_bind_events = 1;
  jvmtiEventCallbacks callbacks{};
  callbacks.NativeMethodBind = &OnBind;
  if (jvmti->AddCapabilities(&capabilities) != JVMTI_ERROR_NONE ||
      jvmti->SetEventCallbacks(&callbacks, sizeof(callbacks)) != JVMTI_ERROR_NONE ||
      jvmti->SetEventNotificationMode(JVMTI_ENABLE, JVMTI_EVENT_NATIVE_METHOD_BIND, nullptr) !=
          JVMTI_ERROR_NONE) {
    Say("this JVM does not tell agents of native methods", "");
    return JNI_ERR;
  }
  return JNI_OK;
}
