/* SOLAM: Ying, Wen, Lyu, "Stochastic Online AUC Maximization", NIPS 2016, algorithm 1, transcribed line by line,
 * plus lam/2 ||w||^2 (Natole, Ying, Lyu 2019, eq. 6). One pass over dense rows in the order given; y is +-1.
 *
 *   F(w, a, b, alpha; x, y) = (1 - p)(w'x - a)^2 [y = 1] + p (w'x - b)^2 [y = -1]
 *                           + 2 (1 + alpha)(p w'x [y = -1] - (1 - p) w'x [y = 1]) - p (1 - p) alpha^2 + lam/2 ||w||^2
 *
 * Steps zeta/sqrt(t); projections ||w|| <= R, |a|, |b| <= R kappa, |alpha| <= 2 R kappa; the output is the average of
 * the iterates, weighted by the steps. work holds d numbers. */
#include <math.h>
#include <string.h>

static double clip(double value, double bound)
{
    return value > bound ? bound : value < -bound ? -bound : value;
}

void solam(const double *X, const double *y, long n, long d, double lam, double zeta, double kappa, double *average,
           double *work)
{
    double *w = work;
    double a = 0.0, b = 0.0, alpha = 0.0, p = 0.0, steps = 0.0;
    const double radius = sqrt(2.0 / lam);
    memset(w, 0, d * sizeof(double));
    memset(average, 0, d * sizeof(double));
    for (long t = 1; t <= n; t++) {
        const double *x = X + (t - 1) * d;
        const int positive = y[t - 1] > 0.0;
        const double step = zeta / sqrt((double)t);
        p += (positive - p) / t;
        double score = 0.0;
        for (long f = 0; f < d; f++)
            score += w[f] * x[f];

        /* derivatives at (w, a, b, alpha), all taken before anything moves */
        double slope, down_a = 0.0, down_b = 0.0, up;
        if (positive) {
            slope = 2.0 * (1.0 - p) * (score - a - 1.0 - alpha);
            down_a = -2.0 * (1.0 - p) * (score - a);
            up = -2.0 * (1.0 - p) * score;
        } else {
            slope = 2.0 * p * (score - b + 1.0 + alpha);
            down_b = -2.0 * p * (score - b);
            up = 2.0 * p * score;
        }
        up -= 2.0 * p * (1.0 - p) * alpha;

        double norm = 0.0;
        for (long f = 0; f < d; f++) {
            w[f] -= step * (slope * x[f] + lam * w[f]);
            norm += w[f] * w[f];
        }
        norm = sqrt(norm);
        if (norm > radius)
            for (long f = 0; f < d; f++)
                w[f] *= radius / norm;
        a = clip(a - step * down_a, radius * kappa);
        b = clip(b - step * down_b, radius * kappa);
        alpha = clip(alpha + step * up, 2.0 * radius * kappa);

        steps += step;
        for (long f = 0; f < d; f++)
            average[f] += step / steps * (w[f] - average[f]);
    }
}
