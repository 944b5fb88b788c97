/* digits_draw.c - digits that look handwritten, for who has no MNIST at hand.
 *
 * Each digit has a few ways of being written; a way is one to three strokes, each a Catmull-Rom spline through a few
 * points of the unit square (y down). A drawing jitters the points, warps and transforms the plane, and inks the curve
 * with a pen whose width drifts; a pixel's ink follows from its distance to the curve, so edges are smooth. As in
 * MNIST, the centre of mass comes to the middle. */
#include "digits.h"

#include <math.h>
#include <string.h>

digits_rng digits_rng_seed(uint64_t seed) {
    digits_rng r = {seed + 0x9e3779b97f4a7c15u};
    digits_rng_u32(&r);
    digits_rng_u32(&r);
    return r;
}

uint32_t digits_rng_u32(digits_rng *r) {
    uint64_t s = r->state;
    r->state = s * 6364136223846793005u + 1442695040888963407u;
    uint32_t x = (uint32_t)(((s >> 18) ^ s) >> 27), turn = (uint32_t)(s >> 59);
    return x >> turn | x << ((32 - turn) & 31);
}

uint32_t digits_rng_below(digits_rng *r, uint32_t n) {
    uint32_t reject = (0u - n) % n, x;
    do x = digits_rng_u32(r);
    while (x < reject);
    return x % n;
}

double digits_rng_unit(digits_rng *r) {
    return digits_rng_u32(r) * 0x1p-32;
}

double digits_rng_normal(digits_rng *r) {
    double u = 1.0 - digits_rng_unit(r), v = digits_rng_unit(r);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

typedef struct draw_point {
    float x, y;
} draw_point;

enum { DRAW_POINTS = 24, DRAW_STROKES = 3, DRAW_STEPS = 6, DRAW_CURVE = DRAW_POINTS * DRAW_STEPS };

/* The points of all strokes of one way; a stroke ends where the pen lifts. */
typedef struct draw_way {
    int digit;
    struct {
        int8_t x, y; /* hundredths */
    } p[DRAW_POINTS];
} draw_way;

#define LIFT {-1, -1}
#define DONE {-2, -2}
/* clang-format off */
static const draw_way draw_ways[] = {
    {0, {{52,10}, {30,22}, {20,50}, {28,80}, {50,90}, {73,78}, {80,48}, {70,18}, {50,10}, DONE}},
    {0, {{62,14}, {40,14}, {24,36}, {24,68}, {44,90}, {68,80}, {78,52}, {72,24}, {56,12}, {44,18}, DONE}},
    {0, {{50,8}, {36,28}, {32,54}, {38,82}, {52,92}, {64,80}, {68,52}, {64,24}, {52,8}, DONE}},
    {1, {{52,8}, {51,36}, {50,64}, {48,92}, DONE}},
    {1, {{34,28}, {46,18}, {54,8}, LIFT, {54,8}, {53,40}, {51,70}, {50,92}, DONE}},
    {1, {{62,8}, {54,36}, {46,64}, {38,92}, DONE}},
    {1, {{36,26}, {54,10}, LIFT, {54,10}, {53,50}, {52,90}, LIFT, {34,91}, {52,90}, {70,90}, DONE}},
    {2, {{24,28}, {36,12}, {58,10}, {72,26}, {66,48}, {44,70}, {22,88}, LIFT, {22,88}, {40,87}, {60,88}, {80,86},
         DONE}},
    {2, {{26,24}, {44,10}, {66,16}, {70,38}, {54,62}, {30,84}, {22,78}, {34,70}, {52,80}, {66,90}, {82,82}, DONE}},
    {2, {{22,20}, {46,10}, {70,18}, {74,36}, {56,56}, {34,74}, {24,90}, {46,84}, {78,90}, DONE}},
    {3, {{26,18}, {46,9}, {68,16}, {70,32}, {56,45}, {42,48}, LIFT, {42,48}, {62,50}, {75,64}, {70,82}, {48,92},
         {24,84}, DONE}},
    {3, {{24,12}, {46,12}, {72,12}, LIFT, {72,12}, {58,28}, {44,42}, LIFT, {44,42}, {66,46}, {76,64}, {64,86},
         {42,92}, {22,82}, DONE}},
    {3, {{30,14}, {52,8}, {66,20}, {60,38}, {44,46}, {50,46}, {68,56}, {68,80}, {48,92}, {28,86}, DONE}},
    {4, {{60,8}, {44,32}, {22,62}, LIFT, {22,62}, {50,61}, {82,60}, LIFT, {62,8}, {61,50}, {60,92}, DONE}},
    {4, {{26,12}, {24,34}, {28,52}, {48,54}, {70,50}, LIFT, {72,10}, {70,40}, {68,66}, {64,92}, DONE}},
    {4, {{34,10}, {26,32}, {20,54}, LIFT, {20,54}, {46,55}, {80,50}, LIFT, {66,24}, {60,56}, {54,92}, DONE}},
    {5, {{74,12}, {54,11}, {34,12}, LIFT, {34,12}, {31,28}, {29,44}, LIFT, {29,44}, {50,38}, {70,50}, {72,72},
         {54,90}, {26,86}, DONE}},
    {5, {{78,10}, {58,12}, {42,14}, {36,30}, {34,44}, {52,46}, {66,58}, {66,76}, {48,90}, {24,88}, DONE}},
    {5, {{32,14}, {30,30}, {30,46}, LIFT, {30,46}, {54,42}, {70,58}, {64,82}, {42,92}, {22,82}, LIFT, {32,14},
         {52,13}, {76,10}, DONE}},
    {6, {{64,8}, {44,24}, {30,48}, {28,74}, {44,91}, {66,84}, {72,66}, {56,54}, {38,60}, {29,74}, DONE}},
    {6, {{46,8}, {36,32}, {30,58}, {34,82}, {52,92}, {70,80}, {68,62}, {52,54}, {34,64}, DONE}},
    {6, {{72,14}, {50,20}, {32,42}, {26,68}, {38,88}, {58,90}, {70,74}, {60,60}, {42,62}, {30,78}, DONE}},
    {7, {{22,14}, {48,13}, {76,12}, LIFT, {76,12}, {64,36}, {52,64}, {44,92}, DONE}},
    {7, {{22,22}, {26,12}, {50,14}, {76,12}, {66,34}, {54,62}, {50,92}, DONE}},
    {7, {{22,14}, {48,13}, {76,12}, LIFT, {76,12}, {60,48}, {42,92}, LIFT, {36,52}, {54,50}, {74,50}, DONE}},
    {8, {{66,20}, {48,9}, {31,20}, {36,38}, {54,50}, {70,68}, {64,86}, {46,91}, {28,82}, {30,64}, {48,50}, {64,36},
         {67,20}, DONE}},
    {8, {{50,9}, {34,18}, {34,36}, {50,46}, {66,36}, {66,18}, {50,9}, LIFT, {50,46}, {28,60}, {28,82}, {50,92},
         {72,82}, {72,60}, {50,46}, DONE}},
    {8, {{70,14}, {48,10}, {36,26}, {50,46}, {64,66}, {58,88}, {40,90}, {34,70}, {50,48}, {68,28}, {72,14}, DONE}},
    {9, {{70,26}, {54,10}, {34,16}, {27,36}, {42,50}, {62,44}, {71,26}, LIFT, {71,26}, {68,50}, {64,72}, {58,92},
         DONE}},
    {9, {{68,22}, {48,10}, {30,24}, {34,44}, {54,46}, {68,28}, {70,22}, {72,50}, {66,78}, {48,92}, {30,84}, DONE}},
    {9, {{64,14}, {44,14}, {32,30}, {40,46}, {58,42}, {66,24}, LIFT, {66,14}, {65,50}, {64,92}, DONE}},
};
/* clang-format on */
#undef LIFT
#undef DONE

static const draw_way *draw_pick(digits_rng *r, int digit) {
    int first = 0, n = 0;
    for (int i = 0; i < KN_COUNT(draw_ways); i++) {
        if (draw_ways[i].digit != digit) continue;
        if (!n++) first = i;
    }
    return &draw_ways[first + (int)digits_rng_below(r, (uint32_t)n)];
}

/* The hand: what maps the unit square to the paper, in pixels. */
typedef struct draw_hand {
    double a, b, c, d;                      /* rotation, slant and size */
    double wave_x, wave_y, freq, phase;     /* a slow warp */
    double width, drift, blur;              /* pen radius, its change along a stroke, softness of its edge */
    double jitter;
} draw_hand;

static draw_hand draw_take_hand(digits_rng *r) {
    draw_hand h;
    double    turn = 0.14 * digits_rng_normal(r), slant = 0.10 + 0.22 * digits_rng_normal(r);
    double    wide = 19.0 * (0.92 + 0.14 * digits_rng_normal(r)), tall = 21.5 * (1.0 + 0.07 * digits_rng_normal(r));
    wide = fmin(fmax(wide, 10.0), 24.0);
    h.a = wide * cos(turn);
    h.b = -tall * (sin(turn) + slant * cos(turn));
    h.c = wide * sin(turn);
    h.d = tall * (cos(turn) - slant * sin(turn));
    h.wave_x = 0.035 * digits_rng_normal(r);
    h.wave_y = 0.035 * digits_rng_normal(r);
    h.freq = 3.0 + 4.0 * digits_rng_unit(r);
    h.phase = 6.283 * digits_rng_unit(r);
    h.width = fmin(fmax(1.15 + 0.38 * digits_rng_normal(r), 0.55), 2.3);
    h.drift = 0.30 * digits_rng_normal(r);
    h.blur = 0.6 + 0.35 * digits_rng_unit(r);
    h.jitter = 0.026;
    return h;
}

static draw_point draw_place(const draw_hand *h, int px, int py, digits_rng *r) {
    double x = px / 100.0 - 0.5 + h->jitter * digits_rng_normal(r);
    double y = py / 100.0 - 0.5 + h->jitter * digits_rng_normal(r);
    double u = x + h->wave_x * sin(h->freq * y + h->phase), v = y + h->wave_y * sin(h->freq * x + 2 * h->phase);
    return (draw_point){(float)(h->a * u + h->b * v), (float)(h->c * u + h->d * v)};
}

static draw_point draw_spline(const draw_point *p, int n, int i, float t) {
    draw_point a = p[i > 0 ? i - 1 : 0], b = p[i], c = p[i + 1], d = p[i + 2 < n ? i + 2 : n - 1];
    float      t2 = t * t, t3 = t2 * t;
    float      wa = 0.5f * (-t3 + 2 * t2 - t), wb = 0.5f * (3 * t3 - 5 * t2 + 2);
    float      wc = 0.5f * (-3 * t3 + 4 * t2 + t), wd = 0.5f * (t3 - t2);
    return (draw_point){wa * a.x + wb * b.x + wc * c.x + wd * d.x, wa * a.y + wb * b.y + wc * c.y + wd * d.y};
}

/* Ink one segment: every pixel keeps the darkest it was given. */
static void draw_ink(float *ink, draw_point a, draw_point b, float radius, float blur) {
    float reach = radius + blur;
    int   x0 = (int)floorf(fminf(a.x, b.x) - reach), x1 = (int)ceilf(fmaxf(a.x, b.x) + reach);
    int   y0 = (int)floorf(fminf(a.y, b.y) - reach), y1 = (int)ceilf(fmaxf(a.y, b.y) + reach);
    float dx = b.x - a.x, dy = b.y - a.y, len2 = dx * dx + dy * dy + 1e-9f;
    x0 = KN_MAX(x0, 0), x1 = KN_MIN(x1, DIGITS_SIDE - 1);
    y0 = KN_MAX(y0, 0), y1 = KN_MIN(y1, DIGITS_SIDE - 1);
    for (int y = y0; y <= y1; y++) {
        for (int x = x0; x <= x1; x++) {
            float px = (float)x - a.x, py = (float)y - a.y;
            float t = fminf(fmaxf((px * dx + py * dy) / len2, 0), 1);
            float ex = px - t * dx, ey = py - t * dy;
            float v = fminf(fmaxf((radius + blur - sqrtf(ex * ex + ey * ey)) / (2 * blur), 0), 1);
            float *at = ink + y * DIGITS_SIDE + x;
            if (v > *at) *at = v;
        }
    }
}

void digits_draw(digits_rng *r, int digit, uint8_t *out) {
    const draw_way *way = draw_pick(r, digit);
    draw_hand       hand = draw_take_hand(r);
    draw_point      curve[DRAW_CURVE], stroke[DRAW_POINTS];
    int             lift[DRAW_STROKES + 1] = {0}, strokes = 0, n = 0;
    for (int i = 0, m = 0; i < DRAW_POINTS; i++) {
        if (way->p[i].x >= 0) {
            stroke[m++] = draw_place(&hand, way->p[i].x, way->p[i].y, r);
            continue;
        }
        for (int k = 0; k + 1 < m; k++)
            for (int s = 0; s < DRAW_STEPS; s++) curve[n++] = draw_spline(stroke, m, k, (float)s / DRAW_STEPS);
        curve[n++] = stroke[m - 1];
        lift[++strokes] = n;
        m = 0;
        if (way->p[i].x == -2) break;
    }
    /* The middle of the ink, nearly enough that of the curve, comes to the middle of the image. */
    double sx = 0, sy = 0, mass = 1e-9;
    for (int s = 0; s < strokes; s++) {
        for (int i = lift[s]; i + 1 < lift[s + 1]; i++) {
            double len = hypot(curve[i + 1].x - curve[i].x, curve[i + 1].y - curve[i].y);
            sx += len * curve[i].x, sy += len * curve[i].y, mass += len;
        }
    }
    float ox = (float)(13.5 - sx / mass + 0.6 * digits_rng_normal(r));
    float oy = (float)(13.5 - sy / mass + 0.6 * digits_rng_normal(r));
    for (int i = 0; i < n; i++) curve[i].x += ox, curve[i].y += oy;

    float ink[DIGITS_PIXELS] = {0};
    for (int s = 0; s < strokes; s++) {
        for (int i = lift[s]; i + 1 < lift[s + 1]; i++) {
            double along = (double)(i - lift[s]) / (lift[s + 1] - lift[s]) - 0.5;
            draw_ink(ink, curve[i], curve[i + 1], (float)(hand.width * (1 + hand.drift * along)), (float)hand.blur);
        }
    }
    for (int i = 0; i < DIGITS_PIXELS; i++) {
        double v = ink[i] > 0 ? 255 * ink[i] * (1 + 0.04 * digits_rng_normal(r)) : 0;
        if (ink[i] > 0 || digits_rng_u32(r) < 0x02000000u) v += 6 * digits_rng_normal(r); /* dust: one pixel in 128 */
        out[i] = (uint8_t)fmin(fmax(v, 0), 255);
    }
}
