/* SPDAM: Natole, Ying, Lyu, "Stochastic AUC Optimization Algorithms With Linear Convergence", Frontiers in Applied
 * Mathematics and Statistics 2019, table 1, transcribed, with sigma from the paper's condition (23).
 *
 * From dense rows X and y = +-1 to w (d numbers): the rows are transformed, z = (x - class mean)/sqrt(class share), and
 * each step draws a batch of its own, uniform among all. Z holds n * d numbers, beta n, order n, work 7 d. */
#include <math.h>
#include <stdint.h>
#include <string.h>

/* Marsaglia's xorshift: the upper half of each word */
static uint32_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)(*state >> 32);
}

/* Fill Z; return max ||z||^2. b becomes m- - m+. */
static double transform(const double *X, const double *y, long n, long d, double *Z, double *b, double *means)
{
    long counts[2] = {0, 0};
    double largest = 0.0;
    memset(means, 0, 2 * d * sizeof(double));
    for (long i = 0; i < n; i++) {
        const int own = y[i] > 0.0;
        counts[own]++;
        for (long f = 0; f < d; f++)
            means[own * d + f] += X[i * d + f];
    }
    for (long f = 0; f < 2 * d; f++)
        means[f] /= counts[f / d];
    for (long f = 0; f < d; f++)
        b[f] = means[f] - means[d + f];
    for (long i = 0; i < n; i++) {
        const int own = y[i] > 0.0;
        const double weight = sqrt((double)n / counts[own]);
        double square = 0.0;
        for (long f = 0; f < d; f++) {
            const double z = weight * (X[i * d + f] - means[own * d + f]);
            Z[i * d + f] = z;
            square += z * z;
        }
        largest = square > largest ? square : largest;
    }
    return largest;
}

void spdam(const double *X, const double *y, long n, long d, long epochs, long batch, double lam, double *Z,
           double *beta, long *order, double *w, double *work)
{
    double *delta = work, *moved = work + d, *ahead = work + 2 * d, *pull = work + 3 * d, *b = work + 4 * d;
    uint64_t state = 88172645463325252u;
    const double kappa2 = transform(X, y, n, d, Z, b, work + 5 * d), rest = (double)(n - batch);
    const double sigma = lam * (rest + sqrt(rest * rest + 4.0 * n * batch * kappa2 / lam)) / (4.0 * batch * kappa2);
    const double tau = 1.0 / (4.0 * sigma * kappa2), theta = 1.0 - lam / (lam + 2.0 * sigma * kappa2);
    const double shift = lam + 1.0 / tau;
    double squared = 0.0;
    memset(beta, 0, n * sizeof(double));
    memset(w, 0, d * sizeof(double));
    memset(ahead, 0, d * sizeof(double));
    memset(pull, 0, d * sizeof(double));
    for (long i = 0; i < n; i++)
        order[i] = i;
    for (long f = 0; f < d; f++)
        squared += b[f] * b[f];
    for (long step = 0; step < epochs * ((n + batch - 1) / batch); step++) {
        /* dual: beta_i <- (sigma ahead'z_i + beta_i)/(1 + sigma) on the batch, delta = 1/n sum of changes times z_i */
        for (long f = 0; f < d; f++)
            delta[f] = 0.0;
        for (long q = 0; q < batch; q++) {
            const long at = q + (long)(((uint64_t)draw(&state) * (uint64_t)(n - q)) >> 32), i = order[at];
            const double *z = Z + i * d;
            order[at] = order[q];
            order[q] = i;
            double score = 0.0;
            for (long f = 0; f < d; f++)
                score += ahead[f] * z[f];
            const double fresh = (sigma * score + beta[i]) / (1.0 + sigma), change = (fresh - beta[i]) / n;
            beta[i] = fresh;
            for (long f = 0; f < d; f++)
                delta[f] += change * z[f];
        }
        /* primal: (bb' + (lam + 1/tau) I) w_new = w/tau - b - pull - n/m delta, by Sherman-Morrison */
        double along = 0.0;
        for (long f = 0; f < d; f++) {
            moved[f] = w[f] / tau - b[f] - pull[f] - (double)n / batch * delta[f];
            pull[f] += delta[f];
            along += b[f] * moved[f];
        }
        along /= shift + squared;
        for (long f = 0; f < d; f++) {
            const double fresh = (moved[f] - along * b[f]) / shift;
            ahead[f] = fresh + theta * (fresh - w[f]);
            w[f] = fresh;
        }
    }
}
