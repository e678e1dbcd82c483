// Attention over rows of trees for training on a CPU, forward and backward. attention.py defines what it computes.
//
// Everything is cut into blocks of 32 queries and 32 keys, and a head has 32 values. So all work is products of 32
// x 32 matrices, summed in float32 (with bfloat16 factors if the inputs are bfloat16). Scores exist only inside a
// block. The forward pass keeps a running maximum and sum, both starting from the sink. The backward pass computes
// the scores again from the saved log-sum-exp. A block of keys that no query of a block sees is skipped. A task is
// one key-value head of one row with the query heads that share it. Tasks write to separate places, so results do
// not depend on the number of threads.
//
// Vectors are the compiler's own (GCC and Clang), so this builds for any processor. The layout suits AVX-512.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <cmath>
#include <cstring>
#include <tuple>
#include <vector>

#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

namespace {

constexpr int64_t B = 32;  // queries and keys of a block, and values of a head
constexpr int64_t W = 16;  // lanes of a vector; rope turns value i with value i + 16, so a head is two vectors
const float kScale = 1.0f / std::sqrt(float(B));

typedef float Vec __attribute__((vector_size(4 * W)));
typedef int32_t Ints __attribute__((vector_size(4 * W)));
typedef uint32_t Bits __attribute__((vector_size(4 * W)));
typedef uint16_t Halves __attribute__((vector_size(2 * W)));

struct alignas(64) Tile {
  float at[B * B];
};

inline Vec load(const float* p) {
  Vec v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

inline Vec load(const at::BFloat16* p) {
  Halves h;
  std::memcpy(&h, p, sizeof h);
  return (Vec)(__builtin_convertvector(h, Bits) << 16);
}

inline void store(float* p, Vec v) { std::memcpy(p, &v, sizeof v); }

// Rounds to the nearest, ties to even.
inline void store(at::BFloat16* p, Vec v) {
  Bits b = (Bits)v;
  Halves h = __builtin_convertvector((b + 0x7fff + ((b >> 16) & 1)) >> 16, Halves);
  std::memcpy(p, &h, sizeof h);
}

inline float largest(Vec v) {
#define FOLD(...) { Vec o = __builtin_shuffle(v, Ints{__VA_ARGS__}); v = v > o ? v : o; }
  FOLD(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)
  FOLD(4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11)
  FOLD(2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)
  FOLD(1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
#undef FOLD
  return v[0];
}

inline float total(Vec v) {
  float s = 0;
  for (int i = 0; i < W; i++) s += v[i];
  return s;
}

// e to the x for x up to about 80: the nearest whole power of 2, times the series for the rest (at most 0.35).
inline Vec power(Vec x) {
  x = x < -87.0f ? Vec{} - 87.0f : x;
  Vec n = (x * 1.44269504f + 12582912.0f) - 12582912.0f;
  Vec r = x - n * 0.693359375f + n * 2.12194440e-4f;
  Vec y = r * (1.0f / 720) + 1.0f / 120;
  y = y * r + 1.0f / 24;
  y = y * r + 1.0f / 6;
  y = y * r + 0.5f;
  y = y * r + 1.0f;
  y = y * r + 1.0f;
  return y * (Vec)((__builtin_convertvector(n, Ints) + 127) << 23);
}

// The lanes whose bit is set, starting with the lowest bit.
inline Ints lanes(uint32_t word) {
  const Bits bit = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
  return (Ints)((word & bit) != 0);
}

// The factors of products. A right factor has one row of cells per step of the sum. In a left factor the cells of a
// row are contiguous over all steps. A cell is one value in float32. In bfloat16 it is the two values k and k + 16,
// because one instruction multiplies both and adds them to a float32.
template <typename T>
struct Factor;

template <>
struct Factor<float> {
  typedef float Cell;
  typedef Vec Cells;
  static constexpr int64_t kSteps = B;
  static void left_row(float* to, Vec lo, Vec hi) { store(to, lo), store(to + W, hi); }
  static Vec right_row(const Tile& x, int64_t k, int64_t at) { return load(x.at + k * B + at); }
  static Vec add(Vec sum, float a, Vec b) { return sum + a * b; }
};

template <>
struct Factor<at::BFloat16> {
  typedef uint32_t Cell;
  typedef Bits Cells;
  static constexpr int64_t kSteps = W;
  static Bits pair(Vec low, Vec high) { return (((Bits)low + 0x8000) >> 16) | (((Bits)high + 0x8000) & 0xffff0000); }
  static void left_row(uint32_t* to, Vec lo, Vec hi) {
    Bits p = pair(lo, hi);
    std::memcpy(to, &p, sizeof p);
  }
  static Bits right_row(const Tile& x, int64_t k, int64_t at) {
    return pair(load(x.at + k * B + at), load(x.at + (k + W) * B + at));
  }
  static Vec add(Vec sum, uint32_t a, Bits b) {
#ifdef __AVX512BF16__
    return (Vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)(Bits{} + a), (__m512bh)b);
#else
    Bits s = Bits{} + a;
    return sum + (Vec)(s << 16) * (Vec)(b << 16) + (Vec)(s & 0xffff0000) * (Vec)(b & 0xffff0000);
#endif
  }
};

template <typename T>
struct alignas(64) Left {
  typename Factor<T>::Cell at[B * Factor<T>::kSteps];

  void row(int64_t i, Vec lo, Vec hi) { Factor<T>::left_row(at + i * Factor<T>::kSteps, lo, hi); }

  void set(const Tile& x) {
    for (int64_t i = 0; i < B; i++) row(i, load(x.at + i * B), load(x.at + i * B + W));
  }
};

template <typename T>
struct alignas(64) Right {
  typename Factor<T>::Cell at[Factor<T>::kSteps * B];

  void set(const Tile& x) {
    for (int64_t k = 0; k < Factor<T>::kSteps; k++)
      for (int64_t c = 0; c < B; c += W) {
        auto cells = Factor<T>::right_row(x, k, c);
        std::memcpy(at + k * B + c, &cells, sizeof cells);
      }
  }

  void set_transposed(const Tile& x) {
    Tile t;
    for (int64_t i = 0; i < B; i++)
      for (int64_t j = 0; j < B; j++) t.at[j * B + i] = x.at[i * B + j];
    set(t);
  }
};

// c += a b. The cell of row i and step k of a is at a[i * Row + k * Col].
template <typename T, int64_t Row, int64_t Col>
inline void multiply(const typename Factor<T>::Cell* a, const Right<T>& b, Tile& c) {
  for (int64_t i = 0; i < B; i += 8) {
    Vec lo[8], hi[8];
#pragma GCC unroll 8
    for (int r = 0; r < 8; r++) lo[r] = load(c.at + (i + r) * B), hi[r] = load(c.at + (i + r) * B + W);
    for (int64_t k = 0; k < Factor<T>::kSteps; k++) {
      typename Factor<T>::Cells x, y;
      std::memcpy(&x, b.at + k * B, sizeof x);
      std::memcpy(&y, b.at + k * B + W, sizeof y);
#pragma GCC unroll 8
      for (int r = 0; r < 8; r++) {
        auto s = a[(i + r) * Row + k * Col];
        lo[r] = Factor<T>::add(lo[r], s, x);
        hi[r] = Factor<T>::add(hi[r], s, y);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < 8; r++) store(c.at + (i + r) * B, lo[r]), store(c.at + (i + r) * B + W, hi[r]);
  }
}

template <typename T>
inline void multiply(const Left<T>& a, const Right<T>& b, Tile& c) {
  multiply<T, Factor<T>::kSteps, 1>(a.at, b, c);
}

// c += a' b, with a transposed: a right factor is also the transposed left factor.
template <typename T>
inline void multiply_transposed(const Right<T>& a, const Right<T>& b, Tile& c) {
  multiply<T, 1, B>(a.at, b, c);
}

// The keys that each query of a block sees, one word per query.
struct Seen {
  const uint32_t* word;
  bool any, all;

  explicit Seen(const int32_t* p) : word(reinterpret_cast<const uint32_t*>(p)) {
    uint32_t some = 0, every = ~0u;
    for (int64_t i = 0; i < B; i++) some |= word[i], every &= word[i];
    any = some != 0, all = every == ~0u;
  }
};

// The shapes and pointers that both passes share.
template <typename T>
struct Rows {
  int64_t n, t, blocks, heads, kv, width;
  const T* qkv;
  const float *cos, *sin, *sinks;
  const int32_t* mask;

  Rows(const at::Tensor& x, const at::Tensor& c, const at::Tensor& s, const at::Tensor& k, const at::Tensor& m)
      : n(x.size(0)), t(x.size(1)), blocks((t + B - 1) / B), heads(k.numel()), kv((x.size(2) / B - heads) / 2),
        width(x.size(2)),
        qkv(x.const_data_ptr<T>()), cos(c.const_data_ptr<float>()), sin(s.const_data_ptr<float>()),
        sinks(k.const_data_ptr<float>()), mask(m.const_data_ptr<int32_t>()) {}

  Seen seen(int64_t row, int64_t q, int64_t k) const { return Seen(mask + ((row * blocks + q) * blocks + k) * B); }

  // Reads block b of a tensor's head; positions past the end of the row are zero.
  static void read(const T* from, int64_t width, int64_t row, int64_t t, int64_t b, int64_t head, Tile& to) {
    for (int64_t i = 0; i < B; i++) {
      int64_t p = b * B + i;
      const T* x = from + (row * t + p) * width + head * B;
      store(to.at + i * B, p < t ? load(x) : Vec{});
      store(to.at + i * B + W, p < t ? load(x + W) : Vec{});
    }
  }

  // Rotates a block by its positions' angles, or back for the gradient, and scales it.
  void turn(Tile& x, int64_t row, int64_t b, float scale, bool back) const {
    for (int64_t i = 0; i < B && b * B + i < t; i++) {
      int64_t p = (row * t + b * B + i) * W;
      Vec c = load(cos + p) * scale, s = load(sin + p) * (back ? -scale : scale);
      Vec lo = load(x.at + i * B), hi = load(x.at + i * B + W);
      store(x.at + i * B, lo * c - hi * s);
      store(x.at + i * B + W, hi * c + lo * s);
    }
  }

  void query(int64_t row, int64_t b, int64_t head, Tile& to) const {
    read(qkv, width, row, t, b, head, to);
    turn(to, row, b, kScale, false);
  }

  void key(int64_t row, int64_t b, int64_t head, Tile& to) const {
    read(qkv, width, row, t, b, heads + head, to);
    turn(to, row, b, 1, false);
  }

  void value(int64_t row, int64_t b, int64_t head, Tile& to) const {
    read(qkv, width, row, t, b, heads + kv + head, to);
  }

  static void write(const Tile& x, int64_t width, int64_t row, int64_t t, int64_t b, int64_t head, T* to) {
    for (int64_t i = 0; i < B && b * B + i < t; i++) {
      T* y = to + (row * t + b * B + i) * width + head * B;
      store(y, load(x.at + i * B));
      store(y + W, load(x.at + i * B + W));
    }
  }
};

template <typename T>
void forward_task(const Rows<T>& in, int64_t row, int64_t kv, T* out, float* lse) {
  std::vector<Right<T>> keys_t(in.blocks), values(in.blocks);
  Tile s, o;
  Left<T> q, p;
  for (int64_t b = 0; b < in.blocks; b++) {
    in.key(row, b, kv, s);
    keys_t[b].set_transposed(s);
    in.value(row, b, kv, s);
    values[b].set(s);
  }
  const int64_t group = in.heads / in.kv;
  for (int64_t b = 0; b < in.blocks; b++)
    for (int64_t h = kv * group; h < (kv + 1) * group; h++) {
      in.query(row, b, h, s);
      q.set(s);
      float top[B];
      Vec sum[B];
      for (int64_t i = 0; i < B; i++) top[i] = in.sinks[h], sum[i] = Vec{1};
      o = Tile{};
      for (int64_t k = 0; k <= b; k++) {
        Seen seen = in.seen(row, b, k);
        if (!seen.any) continue;
        s = Tile{};
        multiply(q, keys_t[k], s);
        for (int64_t i = 0; i < B; i++) {
          float* oi = o.at + i * B;
          Vec lo = load(s.at + i * B), hi = load(s.at + i * B + W);
          Ints sees_lo = lanes(seen.word[i]), sees_hi = lanes(seen.word[i] >> W);
          const Vec never = Vec{} - 1e30f;
          if (!seen.all) lo = sees_lo ? lo : never, hi = sees_hi ? hi : never;
          float high = largest(lo > hi ? lo : hi);
          if (high > top[i]) {
            float shrink = std::exp(top[i] - high);
            top[i] = high;
            sum[i] *= shrink;
            store(oi, load(oi) * shrink);
            store(oi + W, load(oi + W) * shrink);
          }
          lo = power(lo - top[i]), hi = power(hi - top[i]);
          if (!seen.all) lo = sees_lo ? lo : Vec{}, hi = sees_hi ? hi : Vec{};
          sum[i] += lo + hi;
          p.row(i, lo, hi);
        }
        multiply(p, values[k], o);
      }
      for (int64_t i = 0; i < B && b * B + i < in.t; i++) {
        float *oi = o.at + i * B, all = total(sum[i]);
        store(oi, load(oi) / all);
        store(oi + W, load(oi + W) / all);
        lse[(row * in.heads + h) * in.t + b * B + i] = top[i] + std::log(all);
      }
      Rows<T>::write(o, in.heads * B, row, in.t, b, h, out);
    }
}

template <typename T>
void backward_task(const Rows<T>& in, int64_t row, int64_t kv, const T* grad, const T* out, const float* lse,
    T* dqkv, float* dsinks) {
  std::vector<Right<T>> keys(in.blocks), keys_t(in.blocks), values_t(in.blocks);
  std::vector<Tile> dkeys(in.blocks), dvalues(in.blocks);
  Tile g, o, s, d, dq;
  Left<T> q_left, g_left, d_left;
  Right<T> q_right, g_right, d_right, p_right;
  for (int64_t b = 0; b < in.blocks; b++) {
    in.key(row, b, kv, s);
    keys[b].set(s);
    keys_t[b].set_transposed(s);
    in.value(row, b, kv, s);
    values_t[b].set_transposed(s);
    dkeys[b] = dvalues[b] = Tile{};
  }
  const int64_t group = in.heads / in.kv;
  for (int64_t h = kv * group; h < (kv + 1) * group; h++) {
    float dsink = 0;
    for (int64_t b = 0; b < in.blocks; b++) {
      in.query(row, b, h, s);
      q_left.set(s), q_right.set(s);
      Rows<T>::read(grad, in.heads * B, row, in.t, b, h, g);
      g_left.set(g), g_right.set(g);
      Rows<T>::read(out, in.heads * B, row, in.t, b, h, o);
      float sums[B] = {}, mean[B] = {}; // log-sum-exp, and the weighted mean of the gradient
      for (int64_t i = 0; i < B && b * B + i < in.t; i++) {
        const float *gi = g.at + i * B, *oi = o.at + i * B;
        sums[i] = lse[(row * in.heads + h) * in.t + b * B + i];
        mean[i] = total(load(gi) * load(oi) + load(gi + W) * load(oi + W));
        dsink -= std::exp(in.sinks[h] - sums[i]) * mean[i];
      }
      dq = Tile{};
      for (int64_t k = 0; k <= b; k++) {
        Seen seen = in.seen(row, b, k);
        if (!seen.any) continue;
        s = d = Tile{};
        multiply(q_left, keys_t[k], s);
        multiply(g_left, values_t[k], d);
        for (int64_t i = 0; i < B; i++) {
          float *si = s.at + i * B, *di = d.at + i * B;
          Vec lo = power(load(si) - sums[i]), hi = power(load(si + W) - sums[i]);
          if (!seen.all) {
            lo = lanes(seen.word[i]) ? lo : Vec{};
            hi = lanes(seen.word[i] >> W) ? hi : Vec{};
          }
          store(si, lo), store(si + W, hi);
          store(di, lo * (load(di) - mean[i]));
          store(di + W, hi * (load(di + W) - mean[i]));
        }
        d_left.set(d), d_right.set(d), p_right.set(s);
        multiply(d_left, keys[k], dq);
        multiply_transposed(d_right, q_right, dkeys[k]);
        multiply_transposed(p_right, g_right, dvalues[k]);
      }
      in.turn(dq, row, b, kScale, true);
      Rows<T>::write(dq, in.width, row, in.t, b, h, dqkv);
    }
    dsinks[row * in.heads + h] = dsink;
  }
  for (int64_t b = 0; b < in.blocks; b++) {
    in.turn(dkeys[b], row, b, 1, true);
    Rows<T>::write(dkeys[b], in.width, row, in.t, b, in.heads + kv, dqkv);
    Rows<T>::write(dvalues[b], in.width, row, in.t, b, in.heads + in.kv + kv, dqkv);
  }
}

void check(const at::Tensor& qkv, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& sinks,
    const at::Tensor& mask) {
  TORCH_CHECK(qkv.dim() == 3 && qkv.is_contiguous() && qkv.size(2) % B == 0,
      "qkv must be contiguous (rows, tokens, heads x 32)");
  int64_t n = qkv.size(0), t = qkv.size(1), blocks = (t + B - 1) / B, kv2 = qkv.size(2) / B - sinks.numel();
  TORCH_CHECK(kv2 > 0 && kv2 % 2 == 0 && sinks.numel() % (kv2 / 2) == 0, "heads must be a multiple of key-value heads");
  for (const auto& angle : {cos, sin})
    TORCH_CHECK(angle.is_contiguous() && angle.scalar_type() == at::kFloat && angle.numel() == n * t * W,
        "angles must be float32 (rows, tokens, 16)");
  TORCH_CHECK(sinks.is_contiguous() && sinks.scalar_type() == at::kFloat, "sinks must be float32");
  TORCH_CHECK(mask.is_contiguous() && mask.scalar_type() == at::kInt && mask.numel() == n * blocks * blocks * B,
      "mask must come from `mask`");
}

template <typename F>
void with_type(const at::Tensor& x, F f) {
  if (x.scalar_type() == at::kBFloat16) return f(at::BFloat16());
  TORCH_CHECK(x.scalar_type() == at::kFloat, "inputs must be bfloat16 or float32");
  f(float());
}

at::Tensor mask(const at::Tensor& pos, const at::Tensor& end, int64_t window) {
  TORCH_CHECK(pos.dim() == 2 && pos.is_contiguous() && end.is_contiguous() && pos.sizes() == end.sizes() &&
              pos.scalar_type() == at::kLong && end.scalar_type() == at::kLong,
              "positions and ends must be contiguous int64 (rows, tokens)");
  int64_t n = pos.size(0), t = pos.size(1), blocks = (t + B - 1) / B;
  at::Tensor out = at::zeros({n, blocks, blocks, B}, at::kInt);
  const int64_t *ps = pos.const_data_ptr<int64_t>(), *es = end.const_data_ptr<int64_t>();
  int32_t* words = out.mutable_data_ptr<int32_t>();
  at::parallel_for(0, n * blocks, 1, [&](int64_t from, int64_t to) {
    for (int64_t task = from; task < to; task++) {
      const int64_t row = task / blocks, b = task % blocks;
      const int64_t *p = ps + row * t, *e = es + row * t;
      for (int64_t i = b * B; i < std::min(t, (b + 1) * B); i++)
        for (int64_t k = 0; k <= b; k++) {
          uint32_t word = 0;
          for (int64_t j = k * B; j < std::min(i + 1, (k + 1) * B); j++)
            word |= uint32_t(i < e[j] && (window <= 0 || p[i] - p[j] < window)) << (j - k * B);
          words[(task * blocks + k) * B + i - b * B] = int32_t(word);
        }
    }
  });
  return out;
}

std::tuple<at::Tensor, at::Tensor> attend(const at::Tensor& qkv, const at::Tensor& cos, const at::Tensor& sin,
                                          const at::Tensor& sinks, const at::Tensor& mask) {
  check(qkv, cos, sin, sinks, mask);
  at::Tensor out = at::empty({qkv.size(0), qkv.size(1), sinks.numel() * B}, qkv.options());
  at::Tensor lse = at::empty({qkv.size(0), sinks.numel(), qkv.size(1)}, sinks.options());
  with_type(qkv, [&](auto type) {
    using T = decltype(type);
    Rows<T> in(qkv, cos, sin, sinks, mask);
    at::parallel_for(0, in.n * in.kv, 1, [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; i++)
        forward_task(in, i / in.kv, i % in.kv, out.mutable_data_ptr<T>(), lse.mutable_data_ptr<float>());
    });
  });
  return {out, lse};
}

std::tuple<at::Tensor, at::Tensor> attend_backward(const at::Tensor& grad, const at::Tensor& qkv, const at::Tensor& cos,
                                                   const at::Tensor& sin, const at::Tensor& sinks,
                                                   const at::Tensor& mask,
                                                   const at::Tensor& out, const at::Tensor& lse) {
  check(qkv, cos, sin, sinks, mask);
  at::Tensor g = grad.contiguous().to(qkv.scalar_type());
  TORCH_CHECK(g.sizes() == out.sizes() && out.is_contiguous() && lse.is_contiguous(),
      "the gradient must have the shape of the output");
  at::Tensor dqkv = at::empty_like(qkv), dsinks = at::empty({qkv.size(0), sinks.numel()}, sinks.options());
  with_type(qkv, [&](auto type) {
    using T = decltype(type);
    Rows<T> in(qkv, cos, sin, sinks, mask);
    at::parallel_for(0, in.n * in.kv, 1, [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; i++)
        backward_task(in, i / in.kv, i % in.kv, g.const_data_ptr<T>(), out.const_data_ptr<T>(),
            lse.const_data_ptr<float>(),
                      dqkv.mutable_data_ptr<T>(), dsinks.mutable_data_ptr<float>());
    });
  });
  return {dqkv, dsinks.sum(0)};
}

}  // namespace

TORCH_LIBRARY(demo_model, m) {
  m.def("mask(Tensor pos, Tensor end, int window) -> Tensor");
  m.def("attend(Tensor qkv, Tensor cos, Tensor sin, Tensor sinks, Tensor mask) -> (Tensor, Tensor)");
  m.def("attend_backward(Tensor grad, Tensor qkv, Tensor cos, Tensor sin, Tensor sinks, Tensor mask, Tensor out, "
        "Tensor lse)"
        " -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(demo_model, CPU, m) {
  m.impl("mask", mask);
  m.impl("attend", attend);
  m.impl("attend_backward", attend_backward);
}
