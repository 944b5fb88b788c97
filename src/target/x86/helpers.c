/* helpers.c - the functions behind helpers.def: the dialect's own narrow floats. */
#include "target/x86/helpers.h"

#include "dialect/uop.h"

#include <string.h>

static double h_double(uint64_t u) {
    double v;
    memcpy(&v, &u, sizeof v);
    return v;
}
static uint64_t h_bits(double v) {
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static void h_round(uint64_t *io, int dt) {
    io[0] = h_bits(kn_cast_scalar((kn_scalar){.f = h_double(io[0])}, KN_F64, dt).f);
}
static void kx_h_round_f8e4m3(uint64_t *io) {
    h_round(io, KN_F8E4M3);
}
static void kx_h_round_f8e5m2(uint64_t *io) {
    h_round(io, KN_F8E5M2);
}

static void h_to(uint64_t *io, int dt) {
    uint8_t b = 0;
    kn_store_scalar(&b, dt, (kn_scalar){.f = h_double(io[0])});
    io[0] = b;
}
static void kx_h_to_f8e4m3(uint64_t *io) {
    h_to(io, KN_F8E4M3);
}
static void kx_h_to_f8e5m2(uint64_t *io) {
    h_to(io, KN_F8E5M2);
}

static void h_from(uint64_t *io, int dt) {
    uint8_t b = (uint8_t)io[0];
    io[0]     = h_bits(kn_load_scalar(&b, dt).f);
}
static void kx_h_from_f8e4m3(uint64_t *io) {
    h_from(io, KN_F8E4M3);
}
static void kx_h_from_f8e5m2(uint64_t *io) {
    h_from(io, KN_F8E5M2);
}

static void kx_h_round_f16(uint64_t *io) {
    h_round(io, KN_F16);
}
static void kx_h_round_bf16(uint64_t *io) {
    h_round(io, KN_BF16);
}

static void h_mulacc(uint64_t *io, int dt) {
    kn_scalar x[3], r = {0};
    for (int k = 0; k < 3; k++) x[k].f = h_double(io[k]);
    kn_alu(KN_OP_MULACC, dt, (int[]){dt, dt, dt}, x, &r);
    io[0] = h_bits(r.f);
}
static void kx_h_mulacc_f16(uint64_t *io) {
    h_mulacc(io, KN_F16);
}
static void kx_h_mulacc_bf16(uint64_t *io) {
    h_mulacc(io, KN_BF16);
}
static void kx_h_mulacc_f8e4m3(uint64_t *io) {
    h_mulacc(io, KN_F8E4M3);
}
static void kx_h_mulacc_f8e5m2(uint64_t *io) {
    h_mulacc(io, KN_F8E5M2);
}

void (*const kx_helper_fn[])(uint64_t *io) = {
#define HELPER(name) kx_h_##name,
#include "target/x86/helpers.def"
#undef HELPER
};
