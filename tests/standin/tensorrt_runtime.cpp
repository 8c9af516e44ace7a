// A stand-in for torch-tensorrt's runtime on a machine without a GPU: the same class and operator names, the same
// serialized fields and the same checks in the same order, but a "plan" is a TorchScript module that runs on the CPU.
//
// What it stands in for is core/runtime of torch-tensorrt 2.13. A plan is seven lines of text and then the module:
// magic, compute capability, TensorRT version, input names, output names, smallest batch, largest batch.

#include <torch/custom_class.h>
#include <torch/script.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace {

enum Field {
  ABI_TARGET_IDX = 0,
  NAME_IDX,
  DEVICE_IDX,
  ENGINE_IDX,
  INPUT_BINDING_NAMES_IDX,
  OUTPUT_BINDING_NAMES_IDX,
  HW_COMPATIBLE_IDX,
  SERIALIZED_METADATA_IDX,
  TARGET_PLATFORM_IDX,
  REQUIRES_OUTPUT_ALLOCATOR_IDX,
  RESOURCE_ALLOCATION_STRATEGY_IDX,
  REQUIRES_NATIVE_MULTIDEVICE_IDX,
  SERIALIZATION_LEN,
};

const std::string MAGIC = "STANDIN1";

// What this machine pretends to be; set once, before anything is loaded.
struct Machine {
  std::string abi = "9";
  std::string capability = "9.0";
  std::string tensorrt = "11.0.0";
};

Machine& machine() {
  static Machine one;
  return one;
}

std::vector<std::string> split(const std::string& text, char delimiter) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, delimiter);) {
    parts.push_back(part);
  }
  return parts;
}

const std::string ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string base64_encode(const std::string& in) {
  std::string out;
  uint32_t bits = 0;
  int num_bits = 0;
  for (unsigned char byte : in) {
    bits = (bits << 8) | byte;
    for (num_bits += 8; num_bits >= 6; num_bits -= 6) {
      out.push_back(ALPHABET[(bits >> (num_bits - 6)) & 63]);
    }
  }
  if (num_bits > 0) {
    out.push_back(ALPHABET[(bits << (6 - num_bits)) & 63]);
  }
  while (out.size() % 4) {
    out.push_back('=');
  }
  return out;
}

std::string base64_decode(const std::string& in) {
  std::string out;
  uint32_t bits = 0;
  int num_bits = 0;
  for (char letter : in) {
    auto value = ALPHABET.find(letter);
    if (value == std::string::npos) {
      break;
    }
    bits = (bits << 6) | static_cast<uint32_t>(value);
    num_bits += 6;
    if (num_bits >= 8) {
      num_bits -= 8;
      out.push_back(static_cast<char>((bits >> num_bits) & 255));
    }
  }
  return out;
}

// id%major%minor%type%name
std::string capability_of(const std::string& device) {
  auto parts = split(device, '%');
  TORCH_CHECK(parts.size() == 5, "Unable to deserialize program target device information");
  return parts[1] + "." + parts[2];
}

struct Plan {
  std::vector<std::string> inputs, outputs;
  int64_t min_batch = 0, max_batch = 0;
  torch::jit::Module module;
};

// As TensorRT itself: nothing of a plan is trusted before its header was read, and a strange one is no plan at all.
Plan deserialize(const std::string& bytes) {
  const std::string refused = "Unable to deserialize the TensorRT engine";
  std::istringstream stream(bytes);
  std::string lines[7];
  for (auto& line : lines) {
    TORCH_CHECK(std::getline(stream, line), refused);
  }
  TORCH_CHECK(lines[0] == MAGIC, refused);
  TORCH_CHECK(lines[1] == machine().capability && lines[2] == machine().tensorrt, refused);
  Plan plan;
  plan.inputs = split(lines[3], '%');
  plan.outputs = split(lines[4], '%');
  plan.min_batch = std::stoll(lines[5]);
  plan.max_batch = std::stoll(lines[6]);
  std::istringstream rest(bytes.substr(static_cast<size_t>(stream.tellg())));  // a reader of its own: it seeks to 0
  try {
    plan.module = torch::jit::load(rest);
  } catch (const std::exception&) {
    TORCH_CHECK(false, refused);
  }
  return plan;
}

void check_names(const std::vector<std::string>& asked, const std::vector<std::string>& known, const char* kind) {
  for (const auto& name : asked) {
    TORCH_CHECK(
        std::find(known.begin(), known.end(), name) != known.end(),
        "Could not find a TensorRT engine binding for ", kind, " named ", name);
  }
}

struct Engine : torch::CustomClassHolder {
  std::vector<std::string> fields;
  Plan plan;

  explicit Engine(std::vector<std::string> given) : fields(std::move(given)) {
    TORCH_CHECK(
        fields[TARGET_PLATFORM_IDX] == "linux_x86_64",
        "This engine was not built to run on this platform (built for: ", fields[TARGET_PLATFORM_IDX], ")");
    TORCH_CHECK(
        capability_of(fields[DEVICE_IDX]) == machine().capability,
        "No compatible device was found for instantiating TensorRT engine");
    plan = deserialize(fields[ENGINE_IDX]);
    check_names(split(fields[INPUT_BINDING_NAMES_IDX], '%'), plan.inputs, "input");
    check_names(split(fields[OUTPUT_BINDING_NAMES_IDX], '%'), plan.outputs, "output");
  }

  std::vector<std::string> serialize() const {
    auto state = fields;
    state[ABI_TARGET_IDX] = machine().abi;
    state[ENGINE_IDX] = base64_encode(fields[ENGINE_IDX]);
    return state;
  }
};

void verify_format(const std::vector<std::string>& fields) {
  TORCH_CHECK(
      fields.size() == SERIALIZATION_LEN, "Program to be deserialized targets an incompatible Torch-TensorRT ABI");
  TORCH_CHECK(
      fields[ABI_TARGET_IDX] == machine().abi,
      "Program to be deserialized targets a different Torch-TensorRT ABI Version (", fields[ABI_TARGET_IDX],
      ") than the Torch-TensorRT Runtime ABI Version (", machine().abi, ")");
}

std::vector<at::Tensor> execute_engine(std::vector<at::Tensor> inputs, c10::intrusive_ptr<Engine> engine) {
  const auto& plan = engine->plan;
  TORCH_CHECK(inputs.size() == plan.inputs.size(), "Expected ", plan.inputs.size(), " inputs");
  const auto& pixels = inputs[0];
  TORCH_CHECK(pixels.scalar_type() == at::kByte && pixels.is_contiguous(), "Expected contiguous uint8 input");
  TORCH_CHECK(
      pixels.size(0) >= plan.min_batch && pixels.size(0) <= plan.max_batch,
      "Error while setting the input shape: ", pixels.size(0), " is outside of the optimization profile");
  auto module = plan.module;
  return {module.forward({pixels}).toTuple()->elements()[0].toTensor()};
}

const auto registration =
    torch::class_<Engine>("tensorrt", "Engine")
        .def(torch::init<std::vector<std::string>>())
        .def_pickle(
            [](const c10::intrusive_ptr<Engine>& self) { return self->serialize(); },
            [](std::vector<std::string> fields) {
              verify_format(fields);
              fields[ENGINE_IDX] = base64_decode(fields[ENGINE_IDX]);
              return c10::make_intrusive<Engine>(std::move(fields));
            });

TORCH_LIBRARY(tensorrt, m) {
  m.def("execute_engine(Tensor[] input_tensors, __torch__.torch.classes.tensorrt.Engine engine) -> Tensor[]");
  m.def("ABI_VERSION", []() -> std::string { return machine().abi; });
  m.def("pretend", [](std::string abi, std::string capability, std::string tensorrt) -> void {
    machine() = {abi, capability, tensorrt};
  });
#define INDEX(NAME) m.def(#NAME, []() -> int64_t { return NAME; })
  INDEX(ABI_TARGET_IDX);
  INDEX(NAME_IDX);
  INDEX(DEVICE_IDX);
  INDEX(ENGINE_IDX);
  INDEX(INPUT_BINDING_NAMES_IDX);
  INDEX(OUTPUT_BINDING_NAMES_IDX);
  INDEX(HW_COMPATIBLE_IDX);
  INDEX(SERIALIZED_METADATA_IDX);
  INDEX(TARGET_PLATFORM_IDX);
  INDEX(REQUIRES_OUTPUT_ALLOCATOR_IDX);
  INDEX(RESOURCE_ALLOCATION_STRATEGY_IDX);
  INDEX(REQUIRES_NATIVE_MULTIDEVICE_IDX);
  INDEX(SERIALIZATION_LEN);
}

TORCH_LIBRARY_IMPL(tensorrt, CompositeExplicitAutograd, m) {
  m.impl("execute_engine", execute_engine);
}

} // namespace
