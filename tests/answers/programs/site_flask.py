from flask import Flask

app = Flask(__name__)


def price(number):
    total = 0
    for i in range(60_000 + number):
        total += i * i % 7
    return total


@app.get("/item/<int:number>")
def item(number):
    return str(price(number))
