// SPDX-License-Identifier: Apache-2.0
// Particle dynamics on CPU and device: soft spheres in a periodic box.
//
//   particles [STEPS] [PARTICLES]
//
// The kernels are in particles.cl beside the program.
//
// Each step the device computes forces and moves the particles; every tenth step it sums the
// energy. When a particle may have left its neighbour list's skin, the CPU rebuilds the lists. A
// kick half-way makes the particles faster, so the lists are built more often: the CPU's share of
// the work changes over time. At the end the program compares the device's forces with its own and
// the energy with what the kick left, and fails if they differ.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

namespace {

struct Float4 {
  float x, y, z, w;
};

constexpr float kCutoff = 1.0f, kSkin = 0.4f, kStep = 0.02f;
constexpr int kMaxNeighbours = 96;
constexpr size_t kGroup = 64;

void Check(cl_int status, const char *what) {
  if (status == CL_SUCCESS) return;
  std::fprintf(stderr, "particles: %s failed (OpenCL error %d)\n", what, status);
  std::exit(1);
}

std::string ReadKernels() {
  char program[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", program, sizeof program);
  std::string folder(program, length > 0 ? length : 0);
  std::ifstream file(folder.substr(0, folder.rfind('/') + 1) + "particles.cl");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

float Wrap(float d, float box) { return d - box * std::rint(d / box); }

// The CPU's part: cell lists, then padded neighbour lists with a skin.
class Neighbours {
 public:
  Neighbours(int n, float box) : n_(n), box_(box), cells_(int(box / (kCutoff + kSkin))) {
    list.resize(size_t(n) * kMaxNeighbours);
    count.resize(n);
  }

  void Build(const std::vector<Float4> &p) {
    std::vector<std::vector<int>> cell(size_t(cells_) * cells_ * cells_);
    for (int i = 0; i < n_; i++) cell[CellOf(p[i])].push_back(i);
    for (int i = 0; i < n_; i++) {
      count[i] = 0;
      int cx = Index(p[i].x), cy = Index(p[i].y), cz = Index(p[i].z);
      for (int dx = -1; dx <= 1; dx++)
        for (int dy = -1; dy <= 1; dy++)
          for (int dz = -1; dz <= 1; dz++) Collect(p, i, cell[Cell(cx + dx, cy + dy, cz + dz)]);
    }
    built_at_ = p;
  }

  bool Stale(const std::vector<Float4> &p) const {
    float limit = 0.25f * kSkin * kSkin;
    for (int i = 0; i < n_; i++) {
      float x = Wrap(p[i].x - built_at_[i].x, box_), y = Wrap(p[i].y - built_at_[i].y, box_),
            z = Wrap(p[i].z - built_at_[i].z, box_);
      if (x * x + y * y + z * z > limit) return true;
    }
    return false;
  }

  std::vector<int> list, count;

 private:
  int Index(float x) const { return std::min(cells_ - 1, int(x / box_ * cells_)); }
  int Cell(int x, int y, int z) const {
    x = (x + cells_) % cells_, y = (y + cells_) % cells_, z = (z + cells_) % cells_;
    return (x * cells_ + y) * cells_ + z;
  }
  int CellOf(const Float4 &p) const { return Cell(Index(p.x), Index(p.y), Index(p.z)); }

  void Collect(const std::vector<Float4> &p, int i, const std::vector<int> &others) {
    float reach = (kCutoff + kSkin) * (kCutoff + kSkin);
    for (int j : others) {
      float x = Wrap(p[i].x - p[j].x, box_), y = Wrap(p[i].y - p[j].y, box_),
            z = Wrap(p[i].z - p[j].z, box_);
      if (j == i || x * x + y * y + z * z > reach) continue;
      if (count[i] == kMaxNeighbours) {
        std::fprintf(stderr, "particles: a neighbour list is full\n");
        std::exit(1);
      }
      list[size_t(count[i]++) * n_ + i] = j;
    }
  }

  int n_;
  float box_;
  int cells_;
  std::vector<Float4> built_at_;
};

std::vector<Float4> CpuForces(const std::vector<Float4> &p, float box) {
  std::vector<Float4> force(p.size(), Float4{0, 0, 0, 0});
  for (size_t i = 0; i < p.size(); i++)
    for (size_t j = 0; j < i; j++) {
      float x = Wrap(p[i].x - p[j].x, box), y = Wrap(p[i].y - p[j].y, box),
            z = Wrap(p[i].z - p[j].z, box);
      float r = std::sqrt(x * x + y * y + z * z);
      if (r >= kCutoff) continue;
      float f = (kCutoff - r) / r;
      force[i].x += f * x, force[i].y += f * y, force[i].z += f * z;
      force[j].x -= f * x, force[j].y -= f * y, force[j].z -= f * z;
    }
  return force;
}

class Device {
 public:
  Device(int n, float box) : n_(n), box_(box), groups_((n + kGroup - 1) / kGroup) {
    cl_platform_id platform;
    cl_int status = clGetPlatformIDs(1, &platform, nullptr);
    Check(status, "finding an OpenCL platform");
    Check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device_, nullptr), "finding a device");
    context_ = clCreateContext(nullptr, 1, &device_, nullptr, nullptr, &status);
    Check(status, "clCreateContext");
    queue_ = clCreateCommandQueue(context_, device_, 0, &status);
    Check(status, "clCreateCommandQueue");
    std::string text = ReadKernels();
    const char *source = text.c_str();
    program_ = clCreateProgramWithSource(context_, 1, &source, nullptr, &status);
    Check(status, "clCreateProgramWithSource");
    Check(clBuildProgram(program_, 1, &device_, "", nullptr, nullptr), "building the kernels");
    forces_ = Kernel("forces"), integrate_ = Kernel("integrate"), energy_ = Kernel("energy");
    position_ = Buffer(n * sizeof(Float4)), velocity_ = Buffer(n * sizeof(Float4));
    force_ = Buffer(n * sizeof(Float4)), partial_ = Buffer(groups_ * 2 * sizeof(float));
    list_ = Buffer(size_t(n) * kMaxNeighbours * sizeof(int)), count_ = Buffer(n * sizeof(int));
  }

  void PutPositions(const std::vector<Float4> &p) { Write(position_, p.data(), Bytes(p)); }
  void PutVelocities(const std::vector<Float4> &v) { Write(velocity_, v.data(), Bytes(v)); }
  void PutNeighbours(const Neighbours &n) {
    Write(list_, n.list.data(), n.list.size() * sizeof(int));
    Write(count_, n.count.data(), n.count.size() * sizeof(int));
  }
  void GetPositions(std::vector<Float4> *p) { Read(position_, p->data(), Bytes(*p)); }
  void GetVelocities(std::vector<Float4> *v) { Read(velocity_, v->data(), Bytes(*v)); }
  void GetForces(std::vector<Float4> *f) { Read(force_, f->data(), Bytes(*f)); }

  void Forces() {
    float cutoff = kCutoff;
    Args(forces_, position_, list_, count_, n_, box_, cutoff, force_);
    Launch(forces_);
  }

  void Integrate() {
    float dt = kStep;
    Args(integrate_, position_, velocity_, force_, n_, dt, box_);
    Launch(integrate_);
  }

  double Energy() {
    Args(energy_, velocity_, force_, n_, partial_);
    Check(clSetKernelArg(energy_, 4, kGroup * 2 * sizeof(float), nullptr), "clSetKernelArg");
    Launch(energy_);
    std::vector<float> partial(groups_ * 2);
    Read(partial_, partial.data(), partial.size() * sizeof(float));
    double sum = 0;
    for (float e : partial) sum += e;
    return sum;
  }

  void Finish() { Check(clFinish(queue_), "clFinish"); }

 private:
  static size_t Bytes(const std::vector<Float4> &v) { return v.size() * sizeof(Float4); }

  cl_kernel Kernel(const char *name) {
    cl_int status;
    cl_kernel kernel = clCreateKernel(program_, name, &status);
    Check(status, name);
    return kernel;
  }

  cl_mem Buffer(size_t bytes) {
    cl_int status;
    cl_mem buffer = clCreateBuffer(context_, CL_MEM_READ_WRITE, bytes, nullptr, &status);
    Check(status, "clCreateBuffer");
    return buffer;
  }

  template <typename... T>
  void Args(cl_kernel kernel, const T &...values) {
    cl_uint index = 0;
    (Check(clSetKernelArg(kernel, index++, sizeof values, &values), "clSetKernelArg"), ...);
  }

  void Launch(cl_kernel kernel) {
    size_t global = groups_ * kGroup, local = kGroup;
    Check(clEnqueueNDRangeKernel(queue_, kernel, 1, nullptr, &global, &local, 0, nullptr, nullptr),
          "clEnqueueNDRangeKernel");
  }

  void Write(cl_mem to, const void *from, size_t bytes) {
    Check(clEnqueueWriteBuffer(queue_, to, CL_TRUE, 0, bytes, from, 0, nullptr, nullptr), "write");
  }

  void Read(cl_mem from, void *to, size_t bytes) {
    Check(clEnqueueReadBuffer(queue_, from, CL_TRUE, 0, bytes, to, 0, nullptr, nullptr), "read");
  }

  int n_;
  float box_;
  size_t groups_;
  cl_device_id device_;
  cl_context context_;
  cl_command_queue queue_;
  cl_program program_;
  cl_kernel forces_, integrate_, energy_;
  cl_mem position_, velocity_, force_, partial_, list_, count_;
};

double LargestForceError(const std::vector<Float4> &a, const std::vector<Float4> &b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); i++)
    largest = std::max({largest, std::fabs(double(a[i].x) - b[i].x),
                        std::fabs(double(a[i].y) - b[i].y), std::fabs(double(a[i].z) - b[i].z)});
  return largest;
}

}  // namespace

int main(int argc, char **argv) {
  int steps = argc > 1 ? std::atoi(argv[1]) : 150, n = argc > 2 ? std::atoi(argv[2]) : 8000;
  if (steps < 2 || n < 64) {
    std::fprintf(stderr, "usage: particles [STEPS >= 2] [PARTICLES >= 64]\n");
    return 2;
  }
  float box = std::cbrt(n / 3.0f);  // three particles per unit of volume
  std::mt19937 random(12345);
  std::uniform_real_distribution<float> place(0, box), speed(-0.5f, 0.5f);
  std::vector<Float4> position(n), velocity(n), force(n);
  for (Float4 &p : position) p = {place(random), place(random), place(random), 0};
  for (Float4 &v : velocity) v = {speed(random), speed(random), speed(random), 0};

  Device device(n, box);
  Neighbours neighbours(n, box);
  neighbours.Build(position);
  device.PutPositions(position);
  device.PutVelocities(velocity);
  device.PutNeighbours(neighbours);

  int builds = 1;
  double reference = 0, last = 0;
  for (int step = 0; step < steps; step++) {
    if (step == steps / 2) {  // the kick
      device.GetVelocities(&velocity);
      for (Float4 &v : velocity) v.x *= 2, v.y *= 2, v.z *= 2;
      device.PutVelocities(velocity);
    }
    device.Forces();
    if (step % 10 == 0) {
      last = device.Energy();
      if (step == 0 || (step >= steps / 2 && step < steps / 2 + 10)) reference = last;
      std::printf("step %4d  energy %.4f  neighbour lists built %d times\n", step, last, builds);
    }
    device.Integrate();
    device.GetPositions(&position);
    if (neighbours.Stale(position)) {
      neighbours.Build(position);
      device.PutNeighbours(neighbours);
      builds++;
    }
  }
  device.Forces();
  device.Finish();
  device.GetForces(&force);

  double error = LargestForceError(force, CpuForces(position, box));
  double drift = std::fabs(last / reference - 1);
  bool good = error < 1e-3 && drift < 0.05;
  std::printf("force error %.1e, energy drift %.2f %%: %s\n", error, 100 * drift,
              good ? "good" : "WRONG");
  return good ? 0 : 1;
}
