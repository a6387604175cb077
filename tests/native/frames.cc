#include <stdexcept>

extern "C" {
#include "frames.h"
}

namespace shapes {
template <typename T> struct Thrower {
    __attribute__((noinline)) static T one(callback f, T i) {
        T got = f(i);
        if (i % 2) throw got;
        return got;
    }
};
} // namespace shapes

extern "C" __attribute__((noinline, visibility("default"))) int apply_throwing(callback f, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) {
        try {
            sum += shapes::Thrower<int>::one(f, i);
        } catch (int got) {
            sum += got;
        }
    }
    return sum;
}
