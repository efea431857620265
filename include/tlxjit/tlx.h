/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* tlxjit: text of a GPU kernel in, running kernel out.
 *
 *   tlx_context_create -> tlx_device_open -> tlx_compile -> tlx_kernel_launch
 *
 * Rules that hold for every function here:
 *
 * - Status. A call that can fail returns tlx_status and takes `tlx_error **error` last. On failure, if `error` is not NULL, *error is a
 *   new error object to be released by the caller; on success it is NULL. Out-parameters are written on success only, except where said.
 * - Ownership. `_create`, `_open` and tlx_compile give the caller one reference; `_retain` adds one, `_release` drops one, and NULL
 *   may be released. A device, kernel or report keeps alive what it needs, so handles may be released in any order. Strings and
 *   data returned as const pointers belong to the handle that they came from and live as long as it; they are never NULL.
 * - Threads. A function that takes a const handle may be called from many threads at once, on the same handle too. `_retain` and
 *   `_release` may as well. No function may be called from a fork()ed child whose parent has used a CUDA or HIP device.
 * - Option structs start with `struct_size`, set to sizeof by the TLX_*_INIT macros: they grow at the end without breaking callers. A
 *   zero in a field means its default. Enumerators keep their values; new ones are added at the end.
 * - No C++ exception leaves the library, and nothing here ends the process, except what no library can catch (stack overflow,
 *   abort() in a third-party driver).
 */
#ifndef TLXJIT_TLX_H
#define TLXJIT_TLX_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) || defined(__clang__)
#define TLX_API __attribute__((visibility("default")))
#else
#define TLX_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------------------------------- version */

#define TLX_VERSION_MAJOR 0
#define TLX_VERSION_MINOR 1
#define TLX_VERSION_PATCH 0

/** The library's version as major * 10000 + minor * 100 + patch. Its signature never changes. A binding compares it with the
 *  header's: while major is 0 the minor numbers must be equal, later the major ones. Any thread. */
TLX_API uint32_t tlx_version(void);
/** "0.1.0". Static. Any thread. */
TLX_API const char *tlx_version_string(void);

/* ----------------------------------------------------------------------------------------------------------------- status */

typedef enum tlx_status {
  TLX_OK = 0,
  TLX_ERROR_INVALID_ARGUMENT = 1, /* the call is wrong: NULL, a bad option, number or type of launch arguments */
  TLX_ERROR_COMPILE = 2,          /* the kernel's text or its parameters are wrong: see the error's diagnostics */
  TLX_ERROR_UNSUPPORTED = 3,      /* a tool, a feature or the device cannot do it */
  TLX_ERROR_FACT = 4,             /* a fact that the kernel was compiled on does not hold for this launch */
  TLX_ERROR_NOT_FOUND = 5,        /* no such device, index or artifact */
  TLX_ERROR_NO_DRIVER = 6,        /* the GPU driver's library is absent or too old */
  TLX_ERROR_DRIVER = 7,           /* the GPU driver reported an error */
  TLX_ERROR_OUT_OF_MEMORY = 8,
  TLX_ERROR_FINDINGS = 9,    /* the simulator's checkers found something: see the report */
  TLX_ERROR_CACHE_MISS = 10, /* TLX_COMPILE_CACHE_ONLY, and the cache has no entry */
  TLX_ERROR_IO = 11,
  TLX_ERROR_INTERNAL = 12 /* our fault; the message says how to reproduce it */
} tlx_status;

/** "TLX_ERROR_COMPILE" for TLX_ERROR_COMPILE; "unknown status" for no status. Static. Any thread. */
TLX_API const char *tlx_status_name(tlx_status status);

/** Why a call failed. Immutable. */
typedef struct tlx_error tlx_error;

TLX_API void tlx_error_retain(tlx_error *error);
TLX_API void tlx_error_release(tlx_error *error);
/** The status that the call returned. */
TLX_API tlx_status tlx_error_code(const tlx_error *error);
/** One line or more for people. For a compile error: its first error, as "file:line:col: error: …". */
TLX_API const char *tlx_error_message(const tlx_error *error);
/** Where in the kernel's text: 1-based line and column (bytes) of the first error. Returns 1, or 0 if there is no location (then *file
 *  is "" and the numbers are 0). Each pointer may be NULL. */
TLX_API int tlx_error_location(const tlx_error *error, const char **file, uint32_t *line, uint32_t *column);
/** All diagnostics of a compile with source lines and carets; "" if the call was not a compile. */
TLX_API const char *tlx_error_diagnostics(const tlx_error *error);
/** The same as a JSON array of {"id", "severity", "file", "line", "column", "end_column", "message", "notes"}; "[]" if none. */
TLX_API const char *tlx_error_diagnostics_json(const tlx_error *error);

/* ---------------------------------------------------------------------------------------------------------------- context */

/** Holds the compile service, the cache and the opened devices. One per application is enough. */
typedef struct tlx_context tlx_context;

typedef enum tlx_log_level {
  TLX_LOG_TRACE = 0,
  TLX_LOG_DEBUG = 1,
  TLX_LOG_INFO = 2,
  TLX_LOG_WARNING = 3,
  TLX_LOG_ERROR = 4
} tlx_log_level;

/** Called from any thread that is inside the library, by several at once, with no lock held. `message` lives until it returns. */
typedef void (*tlx_log_callback)(void *user, tlx_log_level level, const char *message);

typedef enum tlx_cache_mode {
  TLX_CACHE_DEFAULT = 0, /* as the variable TLX_CACHE says (off, readonly, on), else on */
  TLX_CACHE_ON = 1,
  TLX_CACHE_READ_ONLY = 2,
  TLX_CACHE_OFF = 3
} tlx_cache_mode;

typedef struct tlx_context_options {
  size_t struct_size;
  const char *cache_directory; /* NULL: TLX_CACHE_DIR, $XDG_CACHE_HOME/tlxjit, ~/.cache/tlxjit */
  uint64_t cache_max_bytes;    /* 0: 1 GiB. Beyond it the least recently used entries go */
  const char *cuda_driver;     /* path of libcuda; NULL: TLX_CUDA_DRIVER, else libcuda.so.1 */
  const char *hip_driver;      /* path of libamdhip64; NULL: TLX_HIP_DRIVER, else libamdhip64.so */
  const char *ptxas;           /* path of ptxas; NULL: found as the documentation of targets says */
  tlx_log_callback log;        /* NULL: quiet, or stderr if TLX_LOG=trace|debug|info|warning|error is set */
  void *log_user;
  uint32_t log_level;  /* tlx_log_level: the lowest that `log` gets; TLX_LOG_TRACE gets all */
  uint32_t cache_mode; /* tlx_cache_mode */
} tlx_context_options;

#define TLX_CONTEXT_OPTIONS_INIT                                                                                       \
  { sizeof(tlx_context_options) }

/** Makes a context. `options` may be NULL. Loads no driver. An unusable cache directory is not an error: the cache is then off, and
 *  the log says so. Errors: INVALID_ARGUMENT. Any thread. */
TLX_API tlx_status tlx_context_create(const tlx_context_options *options, tlx_context **context, tlx_error **error);
TLX_API void tlx_context_retain(tlx_context *context);
TLX_API void tlx_context_release(tlx_context *context);

/** The cache's directory; "" if the cache is off. */
TLX_API const char *tlx_context_cache_directory(const tlx_context *context);

typedef struct tlx_cache_counters {
  size_t struct_size; /* in: sizeof(tlx_cache_counters) */
  uint64_t hits, misses, stores;
  uint64_t damaged;   /* entries that were refused and deleted */
  uint64_t io_errors; /* reads and writes that failed */
  uint64_t evicted;
} tlx_cache_counters;

#define TLX_CACHE_COUNTERS_INIT                                                                                        \
  { sizeof(tlx_cache_counters) }

/** What this context's cache did since its creation. Errors: INVALID_ARGUMENT. */
TLX_API tlx_status tlx_context_cache_counters(const tlx_context *context, tlx_cache_counters *counters,
                                              tlx_error **error);

/* ---------------------------------------------------------------------------------------------------------------- targets */

typedef struct tlx_target_properties {
  size_t struct_size; /* in: sizeof(tlx_target_properties) */
  const char *name;   /* "sm_90a", "gfx942". Static */
  const char *vendor; /* "nvidia", "amd". Static */
  uint32_t warp_size;
  uint32_t max_threads;  /* of a program */
  uint32_t shared_bytes; /* the most shared memory of a program */
} tlx_target_properties;

#define TLX_TARGET_PROPERTIES_INIT                                                                                     \
  { sizeof(tlx_target_properties) }

/** How many architectures this library compiles for. Any thread. */
TLX_API size_t tlx_target_count(void);
/** Properties of target `index` < tlx_target_count(). Errors: NOT_FOUND, INVALID_ARGUMENT. Any thread. */
TLX_API tlx_status tlx_target_get(size_t index, tlx_target_properties *properties, tlx_error **error);

/* ---------------------------------------------------------------------------------------------------------------- devices */

/** A GPU or the simulator, opened in a context. */
typedef struct tlx_device tlx_device;

typedef struct tlx_device_properties {
  size_t struct_size;       /* in: sizeof(tlx_device_properties) */
  char id[32];              /* "sim", "cuda:0", "hip:1" */
  char name[256];           /* the vendor's */
  char architecture[32];    /* "sm_90", "gfx942"; "" for the simulator, which takes any target */
  uint64_t memory_bytes;    /* 0: unknown */
  uint32_t multiprocessors; /* 0: unknown */
  uint32_t driver_version;  /* as the driver reports it; 0: none */
} tlx_device_properties;

#define TLX_DEVICE_PROPERTIES_INIT                                                                                     \
  { sizeof(tlx_device_properties) }

/** How many devices there are: the simulator, which is always device 0, then CUDA's, then HIP's. Loads the drivers at the first call; the
 *  list is made once per context. Errors: INTERNAL. */
TLX_API tlx_status tlx_context_device_count(const tlx_context *context, size_t *count, tlx_error **error);
/** Properties of device `index`, without opening it. Errors: NOT_FOUND, INVALID_ARGUMENT. */
TLX_API tlx_status tlx_context_device_properties(const tlx_context *context, size_t index,
                                                 tlx_device_properties *properties, tlx_error **error);
/** Why a vendor's devices are missing: `api` is "cuda" or "hip". "" if its driver works, or for another `api`. */
TLX_API const char *tlx_context_driver_problem(const tlx_context *context, const char *api);

/** Opens "sim", "cuda:N" or "hip:N" ("cuda" is "cuda:0"). Opening an id again gives the same device. On CUDA its primary context is
 *  retained for as long as the device lives: pointers and streams of the CUDA runtime and of frameworks over it can be used. Errors:
 *  NOT_FOUND, NO_DRIVER, DRIVER, INVALID_ARGUMENT. */
TLX_API tlx_status tlx_device_open(const tlx_context *context, const char *id, tlx_device **device, tlx_error **error);
TLX_API void tlx_device_retain(tlx_device *device);
TLX_API void tlx_device_release(tlx_device *device);
/** Errors: INVALID_ARGUMENT. */
TLX_API tlx_status tlx_device_get_properties(const tlx_device *device, tlx_device_properties *properties,
                                             tlx_error **error);

/* Memory. Addresses are what the device's kernels use; on the simulator they are host addresses as well. `stream` is a CUstream or
 * hipStream_t, NULL for the default stream; the simulator ignores it. */

/** `bytes` of device memory, aligned to 256 bytes at least. Contents are undefined; the simulator fills it with 0xff and reports reads of
 *  bytes that nothing wrote. Freed by tlx_device_free only. Errors: OUT_OF_MEMORY, DRIVER. */
TLX_API tlx_status tlx_device_alloc(const tlx_device *device, size_t bytes, void **address, tlx_error **error);
/** NULL is allowed. The caller sees to it that no launch still uses the memory. Errors: DRIVER, INVALID_ARGUMENT. */
TLX_API tlx_status tlx_device_free(const tlx_device *device, void *address, tlx_error **error);
/** Copies from the host, in the stream's order. `host` must stay as it is until the stream is synchronized. Errors: DRIVER,
 *  INVALID_ARGUMENT (simulator: the range is not inside memory that it knows). */
TLX_API tlx_status tlx_device_copy_in(const tlx_device *device, void *address, const void *host, size_t bytes,
                                      void *stream, tlx_error **error);
/** Copies to the host, in the stream's order; complete after tlx_device_synchronize. Errors: as tlx_device_copy_in. */
TLX_API tlx_status tlx_device_copy_out(const tlx_device *device, void *host, const void *address, size_t bytes,
                                       void *stream, tlx_error **error);
/** Copies within the device, in the stream's order. The ranges must not overlap. Errors: as tlx_device_copy_in. */
TLX_API tlx_status tlx_device_copy(const tlx_device *device, void *to, const void *from, size_t bytes, void *stream,
                                   tlx_error **error);
/** Lets kernels use memory that tlx_device_alloc did not make. The simulator needs it (it reports every access elsewhere) and takes
 *  the contents as written; on a GPU it does nothing. The memory stays the caller's and must outlive its registration. */
TLX_API tlx_status tlx_device_register(const tlx_device *device, void *address, size_t bytes, tlx_error **error);
/** Ends a registration; `address` as given there. Errors: INVALID_ARGUMENT. */
TLX_API tlx_status tlx_device_unregister(const tlx_device *device, void *address, tlx_error **error);

/** A new stream that does not wait for the default one (for callers that have no runtime to make one). To be destroyed with
 *  tlx_stream_destroy before the device is released. On the simulator it is NULL. Errors: DRIVER, UNSUPPORTED. */
TLX_API tlx_status tlx_stream_create(const tlx_device *device, void **stream, tlx_error **error);
TLX_API tlx_status tlx_stream_destroy(const tlx_device *device, void *stream, tlx_error **error);
/** Waits until all work in `stream` is done; an error of an earlier launch shows here. Errors: DRIVER. */
TLX_API tlx_status tlx_device_synchronize(const tlx_device *device, void *stream, tlx_error **error);

/* ---------------------------------------------------------------------------------------------------------------- compile */

/** A compiled kernel. Immutable, and good for every device that its image is for. */
typedef struct tlx_kernel tlx_kernel;

#define TLX_NUL_TERMINATED ((size_t)-1)

/** A compile-time parameter as one would write it: {"BLOCK", "1024"}, {"T", "f16"}, {"CAUSAL", "true"}. */
typedef struct tlx_param {
  const char *name;
  const char *value;
} tlx_param;

/** Supplies the text of `import "name"`. Sets *text and *size (or TLX_NUL_TERMINATED) and returns TLX_OK, or returns TLX_ERROR_NOT_FOUND.
 *  The text must stay valid until the compile returns; the library does not free it. Called on a thread of the library while tlx_compile
 *  waits, perhaps more than once per name: it must give the same text each time. "std/…" never gets here: it is built in. */
typedef tlx_status (*tlx_import_callback)(void *user, const char *name, const char **text, size_t *size);

typedef enum tlx_image {
  TLX_IMAGE_NATIVE = 0,   /* machine code of the target */
  TLX_IMAGE_SIMULATOR = 1 /* the same lowering, to run on the simulator */
} tlx_image;

/** What to keep beside the image, for tlx_kernel_artifact. Any of them rules out an answer from the cache. */
enum { TLX_KEEP_IR = 1, TLX_KEEP_LLVM = 2, TLX_KEEP_ASSEMBLY = 4, TLX_KEEP_LAYOUTS = 8 };

enum {
  TLX_COMPILE_VERIFY = 1,       /* check the IR after every pass */
  TLX_COMPILE_NO_LINE_INFO = 2, /* leave source lines out of the image */
  TLX_COMPILE_CACHE_ONLY = 4,   /* do not compile: TLX_ERROR_CACHE_MISS if the cache has no entry */
  TLX_COMPILE_NO_STATIC_CHECKS =
      8 /* take hand-written schedules as they are, without looking for waits that never end */
};

typedef struct tlx_compile_options {
  size_t struct_size;
  const char *file_name; /* for diagnostics and debug info; NULL: "kernel.tlx" */
  const char *kernel;    /* NULL: the only kernel of the text */
  const tlx_param *params;
  size_t num_params;
  const char *const *facts; /* as in `requires`: "K % 8 == 0", "aligned(x, 16)"; checked at each launch */
  size_t num_facts;
  const char *target;         /* "sm_80"; NULL: the device's, else INVALID_ARGUMENT */
  const tlx_device *device;   /* NULL, or where it will run: sets `image`, and assembles for that architecture */
  uint32_t image;             /* tlx_image; not read if there is a device */
  uint32_t keep;              /* TLX_KEEP_* */
  uint32_t flags;             /* TLX_COMPILE_* */
  uint32_t debug_timeout;     /* microseconds after which a wait for a barrier stops the kernel; 0: never. The error of
                                 the next synchronization says which wait it was. NVIDIA; the simulator finds deadlocks */
  const char *assembler;      /* NVIDIA: "ptxas", "nvjitlink", "driver"; NULL: the first that is there, in this order */
  const char *dump_after;     /* NULL, or a pass whose result is kept as TLX_ARTIFACT_DUMP */
  tlx_import_callback import; /* NULL: only "std/…" can be imported */
  void *import_user;
} tlx_compile_options;

#define TLX_COMPILE_OPTIONS_INIT                                                                                       \
  { sizeof(tlx_compile_options) }

/** Compiles one kernel of `source` (UTF-8; size in bytes or TLX_NUL_TERMINATED), or takes it from the cache. Equal requests from several
 *  threads compile once. Nothing of the arguments is kept after the return.
 *  Errors: COMPILE (see tlx_error_diagnostics), UNSUPPORTED, CACHE_MISS, INVALID_ARGUMENT, INTERNAL. */
TLX_API tlx_status tlx_compile(const tlx_context *context, const char *source, size_t source_size,
                               const tlx_compile_options *options, tlx_kernel **kernel, tlx_error **error);
TLX_API void tlx_kernel_retain(tlx_kernel *kernel);
TLX_API void tlx_kernel_release(tlx_kernel *kernel);

/** The kernel's name as written. */
TLX_API const char *tlx_kernel_name(const tlx_kernel *kernel);
/** All that is known of it: arguments and their layout, facts, warps, shared memory, registers, stages with their times. The keys are
 *  described in docs/capi.md. */
TLX_API const char *tlx_kernel_metadata_json(const tlx_kernel *kernel);
/** Warnings of the compile, as text and as JSON (the form of tlx_error_diagnostics_json). */
TLX_API const char *tlx_kernel_diagnostics(const tlx_kernel *kernel);
TLX_API const char *tlx_kernel_diagnostics_json(const tlx_kernel *kernel);
/** 1 if it came from the cache, or from another thread's compile of the same request; else 0. */
TLX_API int tlx_kernel_from_cache(const tlx_kernel *kernel);
/** Threads of one program (CTA). */
TLX_API uint32_t tlx_kernel_threads(const tlx_kernel *kernel);

typedef struct tlx_arg_properties {
  size_t struct_size;    /* in: sizeof(tlx_arg_properties) */
  const char *name;      /* lives as long as the kernel */
  const char *type;      /* as in the language: "i32", "*f16", "tensor_desc<f16, [128, 64]>" */
  uint32_t offset, size; /* bytes, in the packed buffer of tlx_kernel_launch_packed */
} tlx_arg_properties;

#define TLX_ARG_PROPERTIES_INIT                                                                                        \
  { sizeof(tlx_arg_properties) }

TLX_API size_t tlx_kernel_num_args(const tlx_kernel *kernel);
/** Argument `index` in the order of the kernel's declaration. Errors: NOT_FOUND, INVALID_ARGUMENT. */
TLX_API tlx_status tlx_kernel_arg(const tlx_kernel *kernel, size_t index, tlx_arg_properties *properties,
                                  tlx_error **error);
/** Bytes of the packed buffer: up to the end of the last argument. */
TLX_API size_t tlx_kernel_packed_size(const tlx_kernel *kernel);

typedef enum tlx_artifact {
  TLX_ARTIFACT_IMAGE = 0,    /* cubin, PTX, HSACO or bitcode of the simulator: always there */
  TLX_ARTIFACT_IR = 1,       /* text, with TLX_KEEP_IR */
  TLX_ARTIFACT_LLVM = 2,     /* text, with TLX_KEEP_LLVM */
  TLX_ARTIFACT_ASSEMBLY = 3, /* PTX or AMD assembly, with TLX_KEEP_ASSEMBLY */
  TLX_ARTIFACT_LAYOUTS = 4,  /* text, with TLX_KEEP_LAYOUTS */
  TLX_ARTIFACT_DUMP = 5,     /* text, with dump_after */
  TLX_ARTIFACT_ASSEMBLER_LOG = 6
} tlx_artifact;

typedef enum tlx_image_kind {
  TLX_IMAGE_KIND_CUBIN = 0,
  TLX_IMAGE_KIND_PTX = 1,
  TLX_IMAGE_KIND_HSACO = 2,
  TLX_IMAGE_KIND_SIMULATOR = 3
} tlx_image_kind;

/** What the image is. */
TLX_API tlx_image_kind tlx_kernel_image_kind(const tlx_kernel *kernel);
/** The bytes of an artifact; text is followed by a NUL that *size does not count. Errors: NOT_FOUND (it was not asked for, or there is
 *  none for this target), INVALID_ARGUMENT. */
TLX_API tlx_status tlx_kernel_artifact(const tlx_kernel *kernel, tlx_artifact artifact, const void **data, size_t *size,
                                       tlx_error **error);

/* ----------------------------------------------------------------------------------------------------------------- launch */

typedef enum tlx_arg_kind {
  TLX_ARG_POINTER = 1,
  TLX_ARG_INT = 2,   /* value.i: for any integer type that can hold it, and floats */
  TLX_ARG_UINT = 3,  /* value.u: the same */
  TLX_ARG_FLOAT = 4, /* value.f: for float types, rounded to nearest even */
  TLX_ARG_TENSOR = 5 /* value.tensor: for a tensor_desc */
} tlx_arg_kind;

/** Element types in memory, named as in the language. 0 is none, so that a forgotten one is an error. */
typedef enum tlx_dtype {
  TLX_DTYPE_I1 = 1, /* a byte, 0 or 1 */
  TLX_DTYPE_I8 = 2,
  TLX_DTYPE_I16 = 3,
  TLX_DTYPE_I32 = 4,
  TLX_DTYPE_I64 = 5,
  TLX_DTYPE_U8 = 6,
  TLX_DTYPE_U16 = 7,
  TLX_DTYPE_U32 = 8,
  TLX_DTYPE_U64 = 9,
  TLX_DTYPE_F8E4M3 = 10,
  TLX_DTYPE_F8E5M2 = 11,
  TLX_DTYPE_F8E4M3FNUZ = 12,
  TLX_DTYPE_F8E5M2FNUZ = 13,
  TLX_DTYPE_F16 = 14,
  TLX_DTYPE_BF16 = 15,
  TLX_DTYPE_F32 = 16,
  TLX_DTYPE_F64 = 17
} tlx_dtype;

/** The dtype that the language calls `name` ("bf16"); 0 if there is none. Any thread. */
TLX_API uint32_t tlx_dtype_from_name(const char *name);

#define TLX_MAX_RANK 5

/** A tensor in device memory, for a tensor_desc<T, [block]>: rank and dtype must be the parameter's; the block is the kernel's business.
 *  These rules hold on every target, with or without TMA, and each launch checks them:
 *  - data is a multiple of 16; it may be NULL if an extent is 0;
 *  - extents are 0 to 2^31 - 1. A tensor with an extent of 0 reads as zeros, and what is stored to it is lost;
 *  - strides are in elements; the last is 1, the others are not negative, a multiple of 16 bytes, and less than 2^40 bytes. Rows may
 *    overlap, and a stride may be 0; the stride of an extent of 0 or 1 is not read.
 *  One more where the target has tensor maps (sm_90a): if the kernel stores to it with `reduce`, the last extent is a multiple of 16 bytes. */
typedef struct tlx_tensor {
  size_t struct_size;
  void *data;                  /* device address of element [0, …, 0] */
  uint32_t dtype;              /* tlx_dtype */
  uint32_t rank;               /* 1 to TLX_MAX_RANK */
  int64_t shape[TLX_MAX_RANK]; /* the rest is not read */
  int64_t strides[TLX_MAX_RANK];
} tlx_tensor;

#define TLX_TENSOR_INIT                                                                                                \
  { sizeof(tlx_tensor) }

/** A launch argument. Its kind must suit the parameter's type and an integer must fit it: a mismatch is an error, never a
 *  reinterpretation. */
typedef struct tlx_arg {
  uint32_t kind;     /* tlx_arg_kind */
  uint32_t reserved; /* 0 */
  union {
    const void *pointer; /* device address */
    int64_t i;
    uint64_t u;
    double f;
    const tlx_tensor *tensor; /* read during the call only */
  } value;
} tlx_arg;

typedef enum tlx_schedule {
  TLX_SCHEDULE_IN_ORDER = 0, /* warps in order, asynchronous operations complete in order */
  TLX_SCHEDULE_RANDOM = 1,   /* drawn from the seed */
  TLX_SCHEDULE_LATE = 2,     /* asynchronous operations complete as late as is legal */
  TLX_SCHEDULE_EARLY = 3     /* and as early */
} tlx_schedule;

/** What the simulator saw in one launch. Immutable. */
typedef struct tlx_report tlx_report;

typedef struct tlx_launch_options {
  size_t struct_size;
  uint32_t grid[3];   /* programs in x, y, z; a 0 launches nothing and succeeds (after the checks of the arguments) */
  uint32_t schedule;  /* simulator: tlx_schedule */
  void *stream;       /* CUstream, hipStream_t; NULL: the default stream */
  uint64_t seed;      /* simulator: for TLX_SCHEDULE_RANDOM */
  uint64_t max_steps; /* simulator: loop back-edges before the launch counts as endless; 0: its default */
  tlx_report *
      *report; /* NULL, or where to put a new report, also when the launch fails with FINDINGS; set to NULL on a GPU */
  uint32_t check_races; /* simulator: 1: accesses of memory that nothing orders are findings */
  uint32_t reserved;    /* not read */
  uint32_t timeline;    /* simulator: 1: draw what one program does, for tlx_report_timeline */
  uint32_t exhaustive;  /* simulator: 1: check every interleaving of each program, not only this schedule's (sm_90a). The kernel runs several times
                           and all of the device's memory is put back in between: no other call may use it meanwhile */
  uint32_t exact;       /* simulator: 1: floats are integers of their width, so that equal mathematics gives equal bits. On a GPU these three are
                           an error */
  uint32_t timeline_program; /* with timeline: which program, x + grid[0] * (y + grid[1] * z); 0, the first, without it */
} tlx_launch_options;

#define TLX_LAUNCH_OPTIONS_INIT                                                                                        \
  {                                                                                                                    \
    sizeof(tlx_launch_options), {                                                                                      \
      1, 1, 1                                                                                                          \
    }                                                                                                                  \
  }

/** Loads the image on `device` now. Afterwards launches there load and allocate nothing, so that a graph can capture them.
 *  Errors: INVALID_ARGUMENT (the image is for another kind of device), UNSUPPORTED, DRIVER, OUT_OF_MEMORY. */
TLX_API tlx_status tlx_kernel_prepare(const tlx_kernel *kernel, const tlx_device *device, tlx_error **error);

/** Launches on options->stream and returns without waiting (the simulator returns when it has finished). `args` in the order of the
 *  kernel's declaration; `options` must not be NULL. Where a tensor_desc is a tensor map (sm_90a), the map is encoded once and used again
 *  while data, shape and strides of that argument stay the same.
 *  Errors: INVALID_ARGUMENT (number, type or range of arguments, a rule of tlx_tensor, grid beyond the device's limits), FACT (names the
 *  fact and the values), FINDINGS (simulator), UNSUPPORTED, DRIVER, OUT_OF_MEMORY. */
TLX_API tlx_status tlx_kernel_launch(const tlx_kernel *kernel, const tlx_device *device,
                                     const tlx_launch_options *options, const tlx_arg *args, size_t num_args,
                                     tlx_error **error);
/** The fast path: `args` is a buffer of tlx_kernel_packed_size() bytes with each argument at its offset; a tensor_desc as
 *  tlx_kernel_encode_tensor made it for this device. Facts and grid are checked, types cannot be. Errors: as tlx_kernel_launch. */
TLX_API tlx_status tlx_kernel_launch_packed(const tlx_kernel *kernel, const tlx_device *device,
                                            const tlx_launch_options *options, const void *args, size_t size,
                                            tlx_error **error);
/** Writes the bytes that stand for `tensor` in the packed buffer, at the offset of argument `index`, to `out`: `size` of them, which must
 *  be the size that tlx_kernel_arg says. They hold for launches of this kernel on this device while the tensor's memory lives. Errors:
 *  INVALID_ARGUMENT (no tensor_desc, another size, a rule of tlx_tensor), NOT_FOUND (index), UNSUPPORTED (no tensor maps), DRIVER. */
TLX_API tlx_status tlx_kernel_encode_tensor(const tlx_kernel *kernel, const tlx_device *device, size_t index,
                                            const tlx_tensor *tensor, void *out, size_t size, tlx_error **error);
/** Launches `warm_ups` times unmeasured, then `repeats` times, and writes the milliseconds of each to `milliseconds[0..repeats)`: device
 *  events on a GPU, the host's clock on the simulator. Waits for the stream. options->report is set to NULL. Errors: as tlx_kernel_launch. */
TLX_API tlx_status tlx_kernel_time(const tlx_kernel *kernel, const tlx_device *device,
                                   const tlx_launch_options *options, const tlx_arg *args, size_t num_args,
                                   uint32_t warm_ups, uint32_t repeats, double *milliseconds, tlx_error **error);

TLX_API void tlx_report_retain(tlx_report *report);
TLX_API void tlx_report_release(tlx_report *report);
/** How many findings (distinct ones: a kind and a source position count once). */
TLX_API size_t tlx_report_count(const tlx_report *report);
/** The findings for people, one a line: "file:line:col: message (thread, program)". */
TLX_API const char *tlx_report_text(const tlx_report *report);
/** The findings as a JSON array of {"kind", "message", "file", "line", "column", "thread", "warp", "task", "program", "count"}. */
TLX_API const char *tlx_report_json(const tlx_report *report);
/** What the `timeline_program` of a launch with `timeline` did, as a page of HTML; "" for other launches, and where the launch ended before that
 *  program began. */
TLX_API const char *tlx_report_timeline(const tlx_report *report);
/** What a launch with `exhaustive` and without findings has covered, a sentence; "" for other launches. */
TLX_API const char *tlx_report_proof(const tlx_report *report);
/** What the kernel's device_print wrote. */
TLX_API const char *tlx_report_printed(const tlx_report *report);

#ifdef __cplusplus
}
#endif

#endif /* TLXJIT_TLX_H */
