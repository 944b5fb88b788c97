/* What x86.def says a form computes, against this CPU: each form that has a meaning is run on random and odd values, at
 * every size, from memory, broadcast and under masks, and compared lane by lane with the interpreter's scalars. */
#include "base/base.h"
#include "check.h"
#include "device/native.h"
#include "target/x86/code.h"
#include "target/x86/cpu.h"
#include "target/x86/disasm.h"
#include "x86/random_ins.h"

#include <ctype.h>
#include <stdlib.h>

enum { SLOT = 64, MASK_SLOT = 4, OUT_SLOT = 5, SLOTS = 6, ROUNDS = 12 };
typedef void (*run_fn)(uint8_t *io);

typedef struct run {
    kx_ins         ins;
    const kx_form *form;
    int            dt, st, lanes;
    bool           mem;
    uint8_t        io[SLOTS * SLOT], out[SLOT];
} run;

/* ---- evaluating ------------------------------------------------------------------------------------------------ */

typedef struct val {
    kn_scalar v;
    int       dtype; /* -1: a number that takes its neighbour's */
} val;

static int64_t bits_at(const uint8_t *p) {
    int64_t v;
    memcpy(&v, p, 8);
    return v;
}

/* Lane `lane` of operand i before the instruction ran. */
static val operand_at(const run *r, int i, int lane) {
    const kx_kind *k    = KX_KIND_OF(r->form, i);
    const uint8_t *slot = r->io + i * SLOT;
    if (k->cls == KX_IMM) return (val){{.i = r->ins.imm}, -1};
    if (k->cls == KX_MASK) return (val){{.i = bits_at(slot) >> lane & 1}, KN_BOOL};
    int dt = i == 0 ? r->dt : r->st;
    if (k->cls == KX_FIXED) dt = KN_U8; /* cl */
    bool one = r->form->op == KN_OP_EXPAND || (r->ins.broadcast && r->ins.reg[i] == KX_IN_MEM);
    return (val){kn_load_scalar(slot + (one ? 0 : lane) * kn_dtypes[dt].size, dt), dt};
}

static bool is_comparison(int op) {
    return op == KN_OP_CMPLT || op == KN_OP_CMPNE || op == KN_OP_CMPGT || op == KN_OP_CMPGE || op == KN_OP_CMPLE ||
           op == KN_OP_CMPEQ;
}

static val apply(const run *r, int op, val *a, int n) {
    int dt = op == KN_OP_WHERE ? a[1].dtype : a[0].dtype;
    for (int i = 0; i < n; i++) { /* numbers */
        int like = a[i].dtype >= 0 ? a[i].dtype : dt >= 0 ? dt : r->st;
        if (a[i].dtype < 0) a[i].v = kn_cast_scalar(a[i].v, KN_I64, like);
        a[i].dtype = like;
    }
    if (op == KN_OP_WHERE && a[0].dtype != KN_BOOL) { /* a vector as mask: its lanes' signs */
        uint8_t b[8] = {0};
        kn_store_scalar(b, a[0].dtype, a[0].v);
        a[0] = (val){{.i = b[kn_dtypes[a[0].dtype].size - 1] >> 7}, KN_BOOL};
    }
    int sources[3] = {a[0].dtype, n > 1 ? a[1].dtype : 0, n > 2 ? a[2].dtype : 0};
    val out        = {{0},
               is_comparison(op)   ? KN_BOOL
                      : op == KN_OP_CAST  ? r->dt
                      : op == KN_OP_WHERE ? sources[1]
                                          : sources[0]};
    if (op == KN_OP_CAST) {
        out.v = kn_cast_scalar(a[0].v, sources[0], r->dt);
    } else {
        kn_scalar s[3] = {a[0].v, a[1].v, a[2].v};
        CHECK(kn_alu(op, out.dtype, sources, s, &out.v));
    }
    return out;
}

static int op_named(const char *name, size_t len) {
    for (int op = 1; op < KN_OP_COUNT; op++)
        if (strlen(kn_ops[op].name) == len && !memcmp(kn_ops[op].name, name, len)) return op;
    printf("no op \"%.*s\"\n", (int)len, name);
    return 0;
}

static val expression(const run *r, const char **at, int lane) {
    const char *p = *at;
    if (*p == 'k') return ++*at, (val){{.i = bits_at(r->io + MASK_SLOT * SLOT) >> lane & 1}, KN_BOOL};
    if (*p >= 'a' && *p <= 'd') return ++*at, operand_at(r, *p - 'a', lane);
    if (isdigit((unsigned char)*p)) {
        char *end;
        val   v = {{.i = strtoll(p, &end, 10)}, -1};
        *at     = end;
        return v;
    }
    size_t len = strcspn(p, "(");
    int    op = op_named(p, len), n = 0;
    val    a[3] = {{{0}, 0}};
    *at         = p + len;
    while (**at && **at != ')') {
        ++*at; /* ( or , */
        if (n < 3) a[n++] = expression(r, at, lane);
    }
    ++*at;
    return op ? apply(r, op, a, n) : a[0];
}

static val meaning_at(const run *r, int lane) {
    const char *text = r->form->meaning;
    int         op   = r->form->op;
    if (op == KN_OP_INVALID) return expression(r, &text, lane);
    val a[3] = {{{0}, 0}};
    int n    = 0;
    for (; text[n]; n++) {
        const char *one = text + n;
        a[n]            = expression(r, &one, lane);
    }
    return op == KN_OP_EXPAND ? a[0] : apply(r, op, a, n);
}

/* ---- values ---------------------------------------------------------------------------------------------------- */

static void odd_value(uint64_t *seed, uint8_t *p, int dt, bool small, bool positive) {
    static const double odd[] = {0, -0.0, 1, -1, 0.5, 1e-40, 1e-310, 65504, 3e38, 1e300, 1e-7, 7.25};
    int                 bytes = kn_dtypes[dt].size;
    uint64_t            bits  = rnd_next(seed);
    int                 way   = rnd_below(seed, 4);
    if (kn_is_float(dt)) {
        double v = way == 0 ? odd[rnd_below(seed, KN_COUNT(odd))]
                            : (double)(int64_t)bits / (double)(1ull << (40 + rnd_below(seed, 23)));
        if (small) v = (double)(int64_t)bits / (double)(1ll << 34); /* within int32, and not whole */
        if (small && positive && v < 0) v = -v;
        if (!small && way == 1) v = rnd_below(seed, 2) ? 1.0 / 0.0 : -(0.0 / 0.0);
        if (small || way != 2)
            kn_store_scalar(p, dt, kn_cast_scalar((kn_scalar){.f = v}, KN_F64, dt));
        else
            memcpy(p, &bits, (size_t)bytes); /* any bits */
        return;
    }
    if (way == 0) bits = (uint64_t)((int64_t)bits >> 63);
    if (way == 1) bits >>= 64 - 8 * bytes + rnd_below(seed, 8 * bytes);
    memcpy(p, &bits, (size_t)bytes);
}

static void fill(uint64_t *seed, run *r) {
    bool cast = r->form->op == KN_OP_CAST, near = r->form->flags & KXF_INRANGE;
    for (int i = 0; i < SLOTS; i++) {
        int dt = i == 0 || i == OUT_SLOT ? r->dt : r->st;
        if (dt == KN_BOOL) dt = KN_U64;
        int bytes = kn_dtypes[dt].size;
        for (int k = 0; k < SLOT; k += bytes)
            odd_value(seed, r->io + i * SLOT + k, dt, cast && near, kn_dtypes[r->dt].kind == 'U');
        /* Counts: half of vectors' below the width, all of those that have to be. */
        bool count = (r->form->op == KN_OP_SHL || r->form->op == KN_OP_SHR) && i > 0;
        if (count && kn_is_int(dt) && r->form->meaning[1] == 'a' + i)
            for (int k = 0; k < SLOT; k += bytes)
                if (near || rnd_below(seed, 2)) {
                    memset(r->io + i * SLOT + k, 0, (size_t)bytes);
                    r->io[i * SLOT + k] = (uint8_t)rnd_below(seed, near ? 8 * bytes : 8 * bytes + 4);
                }
    }
}

/* ---- running --------------------------------------------------------------------------------------------------- */

static int gp_of(const kx_kind *k, int i) {
    static const int regs[4] = {KX_R8, KX_R9, KX_R10, KX_R11};
    return k->cls == KX_FIXED ? KX_RCX : regs[i];
}

static void put(kx_code *c, kx_ins ins) {
    kx_emit(c, &ins);
}

static bool compile(kx_code *c, const run *r, bool zmm) {
    const kx_form *f    = r->form;
    int            wide = zmm ? 64 : 32;
    for (int i = 0; i < f->count; i++) {
        const kx_kind *k  = KX_KIND_OF(f, i);
        int            at = i * SLOT;
        if (r->ins.reg[i] == KX_IN_MEM) continue;
        if (k->cls == KX_VEC) put(c, kx_mem(kx_i2(KX_VMOVUPS, wide, i + 1, KX_IN_MEM), KX_RDI, at));
        if (k->cls == KX_MASK) put(c, kx_mem(kx_i2(KX_KMOVQ, 0, i + 2, KX_IN_MEM), KX_RDI, at));
        if (k->cls == KX_GP || k->cls == KX_FIXED) put(c, kx_mem(kx_i2(KX_MOV, 8, gp_of(k, i), KX_IN_MEM), KX_RDI, at));
    }
    if (r->ins.mask) put(c, kx_mem(kx_i2(KX_KMOVQ, 0, 1, KX_IN_MEM), KX_RDI, MASK_SLOT * SLOT));
    put(c, r->ins);
    const kx_kind *k  = KX_KIND_OF(f, 0);
    int            at = OUT_SLOT * SLOT;
    if (r->ins.reg[0] != KX_IN_MEM) {
        if (k->cls == KX_VEC) put(c, kx_mem(kx_i2(KX_VMOVUPS_ST, wide, KX_IN_MEM, 1), KX_RDI, at));
        if (k->cls == KX_MASK) put(c, kx_mem(kx_i2(KX_KMOVQ_ST, 0, KX_IN_MEM, 2), KX_RDI, at));
        if (k->cls == KX_GP) put(c, kx_mem(kx_i2(KX_MOV_ST, 8, KX_IN_MEM, gp_of(k, 0)), KX_RDI, at));
    }
    put(c, kx_i(KX_VZEROUPPER, 0));
    put(c, kx_i(KX_RET, 0));
    return kx_code_end(c);
}

static bool same(const uint8_t *a, const uint8_t *b, int dt) {
    kn_scalar x = kn_load_scalar(a, dt), y = kn_load_scalar(b, dt);
    if (kn_is_float(dt) && x.f != x.f && y.f != y.f) return true;
    return !memcmp(a, b, (size_t)kn_dtypes[dt].size);
}

/* The first lane that is wrong; -1: none. */
static int wrong_lane(const run *r) {
    const kx_kind *k    = KX_KIND_OF(r->form, 0);
    const uint8_t *got  = r->io + OUT_SLOT * SLOT;
    uint64_t       bits = 0, mask = (uint64_t)bits_at(r->io + MASK_SLOT * SLOT);
    bool           to_mask = k->cls == KX_MASK || (r->dt == KN_BOOL && k->cls == KX_MEM);
    for (int lane = 0; lane < r->lanes; lane++) {
        bool on = !r->ins.mask || mask >> lane & 1 || (r->form->flags & KXF_SELECT && !r->ins.zero);
        val  v  = meaning_at(r, lane);
        if (to_mask) {
            bits |= (uint64_t)(on && v.v.i) << lane;
            continue;
        }
        int     size    = kn_dtypes[r->dt].size;
        uint8_t want[8] = {0};
        if (v.dtype == KN_BOOL) v = (val){{.i = -v.v.i}, KN_I64}; /* a comparison into a vector */
        if (v.dtype < 0) v.dtype = KN_I64;
        if (v.dtype == KN_I64 && r->dt != KN_I64 && r->form->op != KN_OP_CAST) v.v = kn_cast_scalar(v.v, KN_I64, r->dt);
        kn_store_scalar(want, r->dt, v.v);
        if (!on && !r->ins.zero)
            memcpy(want, r->ins.reg[0] == KX_IN_MEM ? r->out + lane * size : r->io + lane * size, (size_t)size);
        if (!on && r->ins.zero) memset(want, 0, sizeof want);
        if (!same(want, got + lane * size, r->dt)) return lane;
    }
    if (!to_mask) return -1;
    uint64_t have = (uint64_t)bits_at(got);
    if (k->cls == KX_MEM && r->lanes < 64) have &= (1ull << r->lanes) - 1; /* the rest of the slot is not its */
    return have == bits ? -1 : 0;
}

/* Dtypes of VOID: integers of the operand's width; bits of vectors. */
static int integer_of(const kx_form *f, int bytes) {
    bool u = f->flags & KXF_UNSIGNED;
    return bytes == 1   ? (u ? KN_U8 : KN_I8)
           : bytes == 2 ? (u ? KN_U16 : KN_I16)
           : bytes == 4 ? (u ? KN_U32 : KN_I32)
           : u          ? KN_U64
                        : KN_I64;
}

static int operand_bytes(const kx_form *f, int i, int size) {
    const kx_kind *k = KX_KIND_OF(f, i);
    uint8_t        n = k->reg ? k->reg : k->mem;
    return n & KX_S ? size >> (n & 7) : n;
}

static bool describe(run *r, int form, int size, bool memory) {
    const kx_form *f = r->form = &kx_forms[form];
    bool           has_mem = false, masks = true;
    int            source = 0;
    r->ins                = kx_i((kx_form_id)form, size);
    for (int i = 0; i < f->count; i++) {
        const kx_kind *k    = KX_KIND_OF(f, i);
        bool           only = k->cls == KX_MEM;
        masks &= k->cls == KX_MASK || only;
        if (k->cls == KX_VSIB || (only && !k->mem)) return false;
        r->ins.reg[i] = (uint8_t)(k->cls == KX_MASK ? i + 2 : k->cls == KX_VEC ? i + 1 : gp_of(k, i));
        if (only || (memory && k->mem && !has_mem)) {
            r->ins.reg[i] = KX_IN_MEM;
            bool only_out = i == 0 && !(f->operand[0] >> 6 & KX_USE);
            r->ins        = kx_mem(r->ins, KX_RDI, (only_out ? OUT_SLOT : i) * SLOT);
            has_mem       = true;
        }
        if (k->cls != KX_IMM && k->cls != KX_FIXED && strchr(f->meaning, 'a' + i)) source = i;
    }
    if (memory != has_mem) return false;
    bool vector = size >= 16;
    r->dt       = f->dt == KN_VOID ? (vector ? KN_U64 : integer_of(f, operand_bytes(f, 0, size))) : f->dt;
    r->st       = f->st == KN_VOID ? (vector ? KN_U64 : integer_of(f, operand_bytes(f, source, size))) : f->st;
    r->lanes    = 1;
    if (vector) {
        r->lanes = 64;
        for (int i = 0; i < f->count; i++) {
            const kx_kind *k = KX_KIND_OF(f, i);
            if (!((k->reg ? k->reg : k->mem) & KX_S) || k->cls == KX_IMM) continue;
            r->lanes = KN_MIN(r->lanes, operand_bytes(f, i, size) / kn_dtypes[i ? r->st : r->dt].size);
        }
    } else if (masks) {
        size_t n = strcspn(f->name, "_") - 1;
        r->lanes = f->name[n] == 'B' ? 8 : f->name[n] == 'W' ? 16 : f->name[n] == 'D' ? 32 : 64;
    }
    return true;
}

/* The instruction of one shape: from registers, from memory, {1toN}, merged and zeroed under a mask. */
static bool in_way(run *r, int form, int size, int way) {
    const kx_form *f         = &kx_forms[form];
    bool           to_memory = KX_KIND_OF(f, 0)->cls == KX_MEM;
    if (!describe(r, form, size, way == 1 || way == 2 || (way > 2 && to_memory))) return false;
    if (way == 2 && !(f->flags & (KXF_B2 | KXF_B4 | KXF_B8))) return false;
    if (way >= 3 && !(f->flags & KXF_MASK)) return false;
    if (way == 4 && (!(f->flags & KXF_ZERO) || to_memory)) return false;
    if (way == 2) r->ins = kx_bcast(r->ins);
    if (way >= 3 || f->flags & KXF_SELECT) r->ins = kx_masked(r->ins, 1, way == 4);
    return true;
}

typedef struct bench {
    uint64_t   features, seed;
    bool       zmm;
    kd_native *native;
    int        runs, bad;
} bench;

static void report(const run *r, int lane) {
    kn_str s;
    kn_str_init(&s, NULL);
    kx_print(&s, &r->ins);
    printf("%s: %s, \"%s\": lane %d of %d:", r->form->name, kn_str_c(&s), r->form->meaning, lane, r->lanes);
    for (int i = 0; i < SLOTS; i++)
        printf(" %016llx", (unsigned long long)bits_at(r->io + i * SLOT + lane * kn_dtypes[i ? r->st : r->dt].size));
    printf("\n");
    kn_str_free(&s);
}

/* False: these features do not have it. */
static bool once(bench *b, run *r, bool small) {
    static _Alignas(64) uint8_t io[SLOTS * SLOT];
    kn_fault                    f = {0};
    kx_code                     c;
    r->ins.imm = (int64_t)(rnd_next(&b->seed) & (small ? 31 : 127));
    if (r->form->flags & KXF_INRANGE && r->ins.size) r->ins.imm &= 8 * r->ins.size - 1;
    if (r->ins.form == KX_VCVTPS2PH) r->ins.imm = 0; /* to nearest, ties to even */
    fill(&b->seed, r);
    memcpy(r->out, r->io + OUT_SLOT * SLOT, SLOT);
    kx_code_init(&c, NULL, b->features, &f);
    if (!compile(&c, r, b->zmm)) {
        kx_code_free(&c);
        CHECK(!kx_needs(&r->ins, b->features) && (kx_needs(&r->ins, ~0ull) || r->form->flags & KXF_EVEXMEM));
        return false;
    }
    kd_code code = {.name = "f", .bytes = c.bytes, .len = c.len};
    if (CHECK(kd_native_load(b->native, &code, 1, NULL, NULL, &f))) {
        run_fn fn;
        memcpy(&fn, &code.at, sizeof fn);
        memcpy(io, r->io, sizeof io);
        fn(io);
        bool in_place = r->ins.reg[0] == KX_IN_MEM && !r->ins.disp; /* read and written in slot 0 */
        memcpy(r->io + OUT_SLOT * SLOT, io + (in_place ? 0 : OUT_SLOT * SLOT), SLOT);
        kd_native_unload(b->native, code.at);
        b->runs++;
        int lane = wrong_lane(r);
        if (lane >= 0 && b->bad++ < 30) report(r, lane);
    }
    kx_code_free(&c);
    return true;
}

static void run_all(uint64_t features, bool zmm, int least) {
    kn_fault f     = {0};
    bench    b     = {.features = features, .seed = 4, .zmm = zmm};
    int      forms = 0, missing = 0;
    b.native = kd_native_new(NULL, &(kd_native_options){.fill = 0xcc}, &f);
    for (int form = 1; form < KX_NFORMS; form++) {
        const kx_form *fm     = &kx_forms[form];
        int            before = b.runs;
        if (!*fm->meaning || fm->op == KN_OP_PREFETCH) continue;
        for (int size = 0; size <= 64; size = size ? size * 2 : 1) {
            if (fm->sizes ? !(fm->sizes & size) : size) continue;
            for (int way = 0; way < 5; way++) {
                run r;
                if (!in_way(&r, form, size, way)) continue;
                for (int round = 0; round < ROUNDS && once(&b, &r, round < ROUNDS / 2); round++) {
                }
            }
        }
        forms += b.runs > before;
        missing += b.runs == before;
    }
    kd_native_free(b.native);
    printf("%s: %d forms mean what the table says, over %d runs; %d are not there\n", zmm ? "AVX-512" : "AVX2", forms,
           b.runs, missing);
    CHECK_EQ(b.bad, 0);
    CHECK(forms >= least);
}

static void avx2(void) { /* the VEX encodings */
    run_all(kx_cpu_features() & (KX_LEVEL_AVX2 | KX_HAS(POPCNT) | KX_HAS(LZCNT)), false, 150);
}

static void avx512(void) {
    if ((kx_cpu_features() & KX_LEVEL_AVX512) == KX_LEVEL_AVX512)
        run_all(kx_cpu_features(), true, 340);
    else
        printf("left out: this CPU has no AVX-512\n");
}

int main(void) {
    if ((kx_cpu_features() & KX_LEVEL_AVX2) != KX_LEVEL_AVX2) SKIP("this CPU has no AVX2");
    RUN(avx2);
    RUN(avx512);
    return check_result();
}
