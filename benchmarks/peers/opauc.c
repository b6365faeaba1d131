/* OPAUC: Gao, Jin, Zhu, Zhou, "One-Pass AUC Optimization", ICML 2013, algorithm 1 with full covariances, transcribed,
 * the covariance update in Welford's form: the same numbers in a third of the operations of the printed one.
 * One pass over dense rows in the order given; y is +-1. With c and S the other class's running mean and covariance,
 *
 *   w <- w - eta (lam w - y (x - c) + (x - c)(x - c)'w + S w).
 *
 * means holds 2 d numbers, covariances 2 d d, work d; class 1 is the positive one. */
#include <string.h>

void opauc(const double *X, const double *y, long n, long d, double lam, double eta, double *w, double *means,
           double *covariances, double *work)
{
    long counts[2] = {0, 0};
    memset(w, 0, d * sizeof(double));
    memset(means, 0, 2 * d * sizeof(double));
    memset(covariances, 0, 2 * d * d * sizeof(double));
    for (long t = 0; t < n; t++) {
        const double *x = X + t * d;
        const int own = y[t] > 0.0, other = 1 - own;

        /* the own class's moments take in the row: S <- S + ((x - c)(x - c)' (m - 1)/m - S)/m, c the mean before */
        const double m = (double)++counts[own];
        double *mean = means + own * d, *covariance = covariances + own * d * d;
        for (long f = 0; f < d; f++)
            work[f] = x[f] - mean[f];
        for (long f = 0; f < d; f++) {
            const double scaled = (m - 1.0) / m * work[f];
            for (long g = 0; g < d; g++)
                covariance[f * d + g] += (scaled * work[g] - covariance[f * d + g]) / m;
        }
        for (long f = 0; f < d; f++)
            mean[f] += work[f] / m;
        if (counts[other] == 0)
            continue;

        /* the step down the gradient of the row's mean loss against the other class */
        const double *centre = means + other * d, *spread = covariances + other * d * d;
        double margin = 0.0;
        for (long f = 0; f < d; f++)
            margin += (x[f] - centre[f]) * w[f];
        for (long f = 0; f < d; f++) {
            double product = 0.0;
            for (long g = 0; g < d; g++)
                product += spread[f * d + g] * w[g];
            work[f] = lam * w[f] + (margin - y[t]) * (x[f] - centre[f]) + product;
        }
        for (long f = 0; f < d; f++)
            w[f] -= eta * work[f];
    }
}
