// What pybind11_module.py calls: callbacks with and without the GIL, from this thread and others, virtual functions that
// Python overrides, and exceptions in both directions.
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace py = pybind11;

namespace {

// So much work that 100,000 take about 1 ms.
unsigned computed(unsigned n) {
    volatile unsigned x = 1;
    for (unsigned i = 0; i < n; i++) x = x * 1664525u + i;
    return x;
}

struct Shape {
    virtual ~Shape() = default;
    virtual long area(long n) = 0;
    virtual long edges() { return 4; }
};

struct PyShape : Shape {
    using Shape::Shape;
    long area(long n) override { PYBIND11_OVERRIDE_PURE(long, Shape, area, n); }
    long edges() override { PYBIND11_OVERRIDE(long, Shape, edges); }
};

struct Odd : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Calls back when it is destroyed.
struct Guard {
    py::function last;
    ~Guard() {
        py::gil_scoped_acquire hold;
        last();
    }
};

long called(const std::function<long(long)> &f, long n) {
    long sum = 0;
    for (long i = 0; i < n; i++) sum += f(i);
    return sum;
}

// The GIL is free in between.
long back(const py::function &f, long n) {
    py::gil_scoped_release release;
    long sum = 0;
    for (long i = 0; i < n; i++) {
        computed(2000);
        py::gil_scoped_acquire hold;
        sum += f(i).cast<long>();
    }
    return sum;
}

// Threads that Python has never seen.
long spread(const py::function &f, int k, long n) {
    py::gil_scoped_release release;
    std::atomic<long> sum{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < k; t++) {
        threads.emplace_back([&] {
            for (long i = 0; i < n; i++) {
                computed(2000);
                py::gil_scoped_acquire hold;
                sum += f(i).cast<long>();
            }
        });
    }
    for (auto &thread : threads) thread.join();
    return sum;
}

std::vector<long> sorted(std::vector<long> values, const std::function<bool(long, long)> &less) {
    std::stable_sort(values.begin(), values.end(), less);
    return values;
}

// Deep: C++ calls Python, which calls this again.
long nested(const py::function &f, long n) { return n == 0 ? 0 : f(n).cast<long>() + 1; }

long thrown(long n) {
    switch (n % 4) {
    case 0: throw std::out_of_range("range");
    case 1: throw py::value_error("value");
    case 2: throw Odd("odd");
    default: return n;
    }
}

// Takes what a callback raised, in C++.
long taken(const py::function &f, long n) {
    long caught = 0;
    for (long i = 0; i < n; i++) {
        try {
            f(i);
        } catch (py::error_already_set &error) {
            caught += error.matches(PyExc_KeyError);
        }
    }
    return caught;
}

} // namespace

PYBIND11_MODULE(pybind11_callbacks, m) {
    py::register_exception<Odd>(m, "Odd");
    py::class_<Shape, PyShape>(m, "Shape").def(py::init<>()).def("area", &Shape::area).def("edges", &Shape::edges);
    py::class_<Guard>(m, "Guard").def(py::init([](py::function last) { return new Guard{last}; }));
    m.def("called", &called);
    m.def("back", &back);
    m.def("spread", &spread);
    m.def("sorted", &sorted);
    m.def("nested", &nested);
    m.def("thrown", &thrown);
    m.def("taken", &taken);
    m.def("computed", &computed, py::call_guard<py::gil_scoped_release>());
    m.def("held", &computed);
    m.def("waited", [](int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); },
          py::call_guard<py::gil_scoped_release>());
    m.def("summed", [](Shape &shape, long n) {
        long sum = 0;
        for (long i = 0; i < n; i++) sum += shape.area(i) + shape.edges();
        return sum;
    });
    m.def("iterated", [](py::iterable values) {
        long sum = 0;
        for (auto value : values) sum += value.cast<long>();
        return sum;
    });
}
