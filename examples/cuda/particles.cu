// SPDX-License-Identifier: Apache-2.0
// Particle dynamics on CPU and NVIDIA device: soft spheres in a periodic box.
//
//   particles [STEPS] [PARTICLES] [--graph]
//
// Each step the device computes forces and moves the particles; every tenth step it sums the
// energy. When a particle may have left its neighbour list's skin, the CPU rebuilds the lists; a
// kick half-way makes the particles faster, so the CPU's share of the work changes over time. With
// --graph a step is one CUDA graph of two kernels. At the end the program compares the device's
// forces with its own and the energy with what the kick left, and fails if they differ.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

constexpr float kCutoff = 1.0f, kSkin = 0.4f, kStep = 0.02f;
constexpr int kMaxNeighbours = 96, kGroup = 128;

#define CHECK(call)                                                                   \
  do {                                                                                \
    cudaError_t status = (call);                                                      \
    if (status != cudaSuccess) {                                                      \
      std::fprintf(stderr, "particles: %s: %s\n", #call, cudaGetErrorString(status)); \
      std::exit(1);                                                                   \
    }                                                                                 \
  } while (0)

// ---- device ------------------------------------------------------------------------------------

__device__ float Nearest(float d, float box) { return d - box * rintf(d / box); }

// Padded neighbour lists: entry j of particle i is list[j * n + i]; count[i] of them hold.
__global__ void Forces(const float4 *position, const int *list, const int *count, int n, float box,
                       float4 *force) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float4 me = position[i], sum = make_float4(0, 0, 0, 0);
  for (int j = 0; j < count[i]; j++) {
    float4 other = position[list[j * n + i]];
    float x = Nearest(me.x - other.x, box), y = Nearest(me.y - other.y, box),
          z = Nearest(me.z - other.z, box);
    float r2 = x * x + y * y + z * z;
    if (r2 < kCutoff * kCutoff) {
      float r = sqrtf(r2), overlap = kCutoff - r, f = overlap / r;
      sum.x += f * x, sum.y += f * y, sum.z += f * z;
      sum.w += 0.25f * overlap * overlap;  // half of each pair's energy
    }
  }
  force[i] = sum;
}

__global__ void Integrate(float4 *position, float4 *velocity, const float4 *force, int n,
                          float box) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float4 v = velocity[i], p = position[i], f = force[i];
  v.x += kStep * f.x, v.y += kStep * f.y, v.z += kStep * f.z;
  p.x += kStep * v.x, p.y += kStep * v.y, p.z += kStep * v.z;
  p.x -= box * floorf(p.x / box), p.y -= box * floorf(p.y / box), p.z -= box * floorf(p.z / box);
  velocity[i] = v;
  position[i] = p;
}

__global__ void Energy(const float4 *velocity, const float4 *force, int n, double *energy) {
  __shared__ double tree[kGroup];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 v = i < n ? velocity[i] : make_float4(0, 0, 0, 0);
  tree[threadIdx.x] = i < n ? 0.5 * (v.x * v.x + v.y * v.y + v.z * v.z) + force[i].w : 0.0;
  __syncthreads();
  for (int half = kGroup / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) tree[threadIdx.x] += tree[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(energy, tree[0]);
}

// ---- CPU ---------------------------------------------------------------------------------------

using Vec = std::vector<float4>;

float Wrap(float d, float box) { return d - box * std::rint(d / box); }

float Distance2(const float4 &a, const float4 &b, float box) {
  float x = Wrap(a.x - b.x, box), y = Wrap(a.y - b.y, box), z = Wrap(a.z - b.z, box);
  return x * x + y * y + z * z;
}

// Cell lists, then padded neighbour lists with a skin.
struct Neighbours {
  Neighbours(int n, float box) : list(size_t(n) * kMaxNeighbours), count(n), n(n), box(box) {
    cells = std::max(1, int(box / (kCutoff + kSkin)));
  }
  int Cell(float x, float y, float z) const {
    auto index = [&](float v) { return std::min(cells - 1, std::max(0, int(v / box * cells))); };
    return (index(x) * cells + index(y)) * cells + index(z);
  }
  void Build(const Vec &p) {
    std::vector<std::vector<int>> cell(size_t(cells) * cells * cells);
    for (int i = 0; i < n; i++) cell[Cell(p[i].x, p[i].y, p[i].z)].push_back(i);
    for (int i = 0; i < n; i++) {
      count[i] = 0;
      std::vector<int> around;  // cells, each once however few there are
      for (int dx = -1; dx <= 1; dx++)
        for (int dy = -1; dy <= 1; dy++)
          for (int dz = -1; dz <= 1; dz++) {
            float side = box / cells;
            auto in = [&](float v, int d) { return std::fmod(v + d * side + box, box); };
            around.push_back(Cell(in(p[i].x, dx), in(p[i].y, dy), in(p[i].z, dz)));
          }
      std::sort(around.begin(), around.end());
      around.erase(std::unique(around.begin(), around.end()), around.end());
      for (int c : around) Collect(p, i, cell[c]);
    }
    built_at = p;
  }
  void Collect(const Vec &p, int i, const std::vector<int> &others) {
    float reach = (kCutoff + kSkin) * (kCutoff + kSkin);
    for (int j : others) {
      if (j == i || Distance2(p[i], p[j], box) > reach) continue;
      if (count[i] == kMaxNeighbours) {
        std::fprintf(stderr, "particles: a neighbour list is full\n");
        std::exit(1);
      }
      list[size_t(count[i]++) * n + i] = j;
    }
  }
  bool Stale(const Vec &p) const {
    for (int i = 0; i < n; i++)
      if (Distance2(p[i], built_at[i], box) > 0.25f * kSkin * kSkin) return true;
    return false;
  }
  std::vector<int> list, count;
  int n, cells;
  float box;
  Vec built_at;
};

double LargestForceError(const Vec &force, const Vec &p, float box) {
  double largest = 0;
  for (size_t i = 0; i < p.size(); i++) {
    double x = 0, y = 0, z = 0;
    for (size_t j = 0; j < p.size(); j++) {
      float r = std::sqrt(Distance2(p[i], p[j], box));
      if (j == i || r >= kCutoff) continue;
      float f = (kCutoff - r) / r;
      x += f * Wrap(p[i].x - p[j].x, box), y += f * Wrap(p[i].y - p[j].y, box);
      z += f * Wrap(p[i].z - p[j].z, box);
    }
    largest = std::max(
        {largest, std::fabs(x - force[i].x), std::fabs(y - force[i].y), std::fabs(z - force[i].z)});
  }
  return largest;
}

// ---- both --------------------------------------------------------------------------------------

template <typename T>
struct Buffer {
  explicit Buffer(size_t n) : bytes(n * sizeof(T)) { CHECK(cudaMalloc(&at, bytes)); }
  void Put(const T *from) { CHECK(cudaMemcpy(at, from, bytes, cudaMemcpyHostToDevice)); }
  void Get(T *to) const { CHECK(cudaMemcpy(to, at, bytes, cudaMemcpyDeviceToHost)); }
  T *at = nullptr;
  size_t bytes;
};

int main(int argc, char **argv) {
  bool as_graph = argc > 1 && std::strcmp(argv[argc - 1], "--graph") == 0;
  argc -= as_graph;
  int steps = argc > 1 ? std::atoi(argv[1]) : 300, n = argc > 2 ? std::atoi(argv[2]) : 20000;
  if (steps < 2 || n < 64) {
    std::fprintf(stderr, "usage: particles [STEPS >= 2] [PARTICLES >= 64] [--graph]\n");
    return 2;
  }
  float box = std::cbrt(n / 3.0f);  // three particles per unit of volume
  std::mt19937 random(12345);
  std::uniform_real_distribution<float> place(0, box), speed(-0.5f, 0.5f);
  Vec position(n), velocity(n), force(n);
  for (float4 &p : position) p = make_float4(place(random), place(random), place(random), 0);
  for (float4 &v : velocity) v = make_float4(speed(random), speed(random), speed(random), 0);

  Neighbours neighbours(n, box);
  neighbours.Build(position);
  Buffer<float4> d_position(n), d_velocity(n), d_force(n);
  Buffer<int> d_list(neighbours.list.size()), d_count(n);
  Buffer<double> d_energy(1);
  d_position.Put(position.data()), d_velocity.Put(velocity.data());
  d_list.Put(neighbours.list.data()), d_count.Put(neighbours.count.data());

  int groups = (n + kGroup - 1) / kGroup, builds = 1;
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  auto compute_forces = [&] {
    Forces<<<groups, kGroup, 0, stream>>>(d_position.at, d_list.at, d_count.at, n, box, d_force.at);
  };
  auto move = [&] {
    Integrate<<<groups, kGroup, 0, stream>>>(d_position.at, d_velocity.at, d_force.at, n, box);
  };
  cudaGraphExec_t step_graph = nullptr;
  if (as_graph) {
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    compute_forces(), move();
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&step_graph, graph, 0));
  }

  double reference = 0, last = 0;
  for (int step = 0; step < steps; step++) {
    if (step == steps / 2) {  // the kick
      d_velocity.Get(velocity.data());
      for (float4 &v : velocity) v.x *= 2, v.y *= 2, v.z *= 2;
      d_velocity.Put(velocity.data());
    }
    if (step % 10 == 0) {
      double zero = 0;
      d_energy.Put(&zero);
      compute_forces();
      Energy<<<groups, kGroup, 0, stream>>>(d_velocity.at, d_force.at, n, d_energy.at);
      CHECK(cudaStreamSynchronize(stream));
      d_energy.Get(&last);
      if (step == 0 || (step >= steps / 2 && step < steps / 2 + 10)) reference = last;
      std::printf("step %4d  energy %.4f  neighbour lists built %d times\n", step, last, builds);
    }
    if (as_graph)
      CHECK(cudaGraphLaunch(step_graph, stream));
    else
      compute_forces(), move();
    CHECK(cudaStreamSynchronize(stream));
    d_position.Get(position.data());
    if (neighbours.Stale(position)) {
      neighbours.Build(position);
      d_list.Put(neighbours.list.data()), d_count.Put(neighbours.count.data());
      builds++;
    }
  }
  compute_forces();
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaGetLastError());
  d_force.Get(force.data());

  double error = LargestForceError(force, position, box);
  double drift = std::fabs(last / reference - 1);
  bool good = error < 1e-3 && drift < 0.05;
  std::printf("force error %.1e, energy drift %.2f %%: %s\n", error, 100 * drift,
              good ? "good" : "WRONG");
  return good ? 0 : 1;
}
